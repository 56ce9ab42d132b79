#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A write that was interrupted (EINTR) while the backing held it may still take effect, but never after a call that was
# acknowledged later: another write of the same bytes, an append, a truncation, an open with O_TRUNC.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

PROCESSES=14 # two requests each: the daemon has a thread for every one

all_ready() {
	[ "$(find "$TEST_TMP/ready" -type f | wc -l)" = "$PROCESSES" ]
}
all_go_on() {
	[ "$(grep -lx EINTR "$TEST_TMP"/ready/* | wc -l)" = "$PROCESSES" ]
}

needs_fuse
loop_fs ext4 64 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
mkdir "$TEST_TMP/ready"
"$PYTHON" - "$MNT" "$TEST_TMP/ready" <<'END' &
import os, signal, sys
os.chdir(sys.argv[1])
class Interrupted(Exception):
	pass
def on_alarm(*args):
	raise Interrupted
def one(kind, name):
	fd = os.open(name, os.O_CREAT | os.O_RDWR | (os.O_APPEND if kind == "append" else 0))
	if kind != "append":
		os.write(fd, b"0" * 4096)
	second = {
		"write": lambda: os.pwrite(fd, b"new!" * 1000, 0), "append": lambda: os.write(fd, b"second\n"),
		"ftruncate": lambda: os.ftruncate(fd, 0), "truncate": lambda: os.truncate(name, 0),
		"open": lambda: os.open(name, os.O_WRONLY | os.O_TRUNC),
	}[kind]
	signal.signal(signal.SIGALRM, on_alarm)
	report = open(sys.argv[2] + "/" + name, "w", buffering=1)
	os.kill(os.getpid(), signal.SIGSTOP)
	try:
		signal.setitimer(signal.ITIMER_REAL, 0.1)
		os.write(fd, b"first\n") if kind == "append" else os.pwrite(fd, b"old." * 1000, 0)
		report.write("not interrupted\n")
	except Interrupted:
		report.write("EINTR\n")
	second()
	report.write("done\n")
	os._exit(0)
kinds = ["write"] * 3 + ["append"] * 3 + ["ftruncate"] * 2 + ["truncate"] * 3 + ["open"] * 3
children = []
for i, kind in enumerate(kinds):
	pid = os.fork()
	if pid == 0:
		one(kind, kind + "." + str(i))
	children.append(pid)
	os.waitpid(pid, os.WUNTRACED)
signal.signal(signal.SIGCONT, lambda *a: [os.kill(pid, signal.SIGCONT) for pid in children])
open(sys.argv[2] + "/../forked", "w").close()
for pid in children:
	assert os.waitpid(pid, 0)[1] == 0
END
forker=$!
wait_until 20 test -e "$TEST_TMP/forked"
wait_until 20 all_ready
expect_ok fsfreeze -f "$BACK"
kill -CONT "$forker"
wait_until 20 all_go_on
wait_until 20 waits_in $((2 * PROCESSES))
for file in "$TEST_TMP"/ready/*; do
	assert_eq "$(cat "$file")" EINTR "${file##*/}"
done
expect_ok fsfreeze -u "$BACK"
wait "$forker"
assert_eq "$?" 0 "exit status"
for moment in "when all calls have returned" "when nothing is in flight"; do
	for file in "$BACK"/*.*; do
		case ${file##*/} in
		write.*) assert_eq "$(head -c 4000 "$file" | tr -d '!enw' | wc -c)" 0 "$moment: others than new bytes" ;;
		append.*) [[ $(cat "$file") =~ ^(first$'\n')?second$ ]] || die "$moment: appended $(cat "$file")" ;;
		*) assert_eq "$(stat -c %s "$file")" 0 "$moment: size of ${file##*/}" ;;
		esac
	done
	wait_until 20 status_is "s['requests']['in_flight'] == 0"
done
umount_ckptfs
