#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The daemon's memory does not stay as large as the worst moment made it: a hundred writes of 1 MiB that waited for a
# frozen backing.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

WRITERS=100

rss_mib() {
	local kib
	# VmRSS lags behind by up to 64 pages for each thread before Linux 6.2.
	kib=$(sed -n 's/^Rss:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$daemon/smaps_rollup")
	echo $((kib / 1024))
}
rss_below() {
	[ "$(rss_mib)" -lt "$1" ]
}

needs_fuse
case $(nm "$CKPTFS" 2>/dev/null) in
*__asan_init* | *__tsan_init*) skip "a sanitizer's memory is its own" ;;
esac
loop_fs ext4 256 "$TEST_TMP/disk"
mount_ckptfs -o host_cache_size=8M "$TEST_TMP/disk"
daemon=$(daemon_pid)
"$PYTHON" - "$MNT" "$WRITERS" <<'END' &
import os, signal, sys
block = b"x" * (1 << 20)
children = []
for i in range(int(sys.argv[2])):
	pid = os.fork()
	if pid == 0:
		fd = os.open(sys.argv[1] + "/f%d" % i, os.O_CREAT | os.O_WRONLY)
		os.kill(os.getpid(), signal.SIGSTOP)
		os._exit(os.write(fd, block) != len(block))
	children.append(pid)
	os.waitpid(pid, os.WUNTRACED)
signal.signal(signal.SIGCONT, lambda *a: [os.kill(pid, signal.SIGCONT) for pid in children])
os.kill(os.getpid(), signal.SIGSTOP)
for pid in children:
	assert os.waitpid(pid, 0)[1] == 0
END
forker=$!
wait_until 20 _stopped "$forker"
expect_ok fsfreeze -f "$BACK"
kill -CONT "$forker"
wait_until 20 waits_in "$WRITERS"
rss_below "$WRITERS" && die "the requests take $(rss_mib) MiB only: this shows nothing"
echo "waiting: $(rss_mib) MiB"
expect_ok fsfreeze -u "$BACK"
wait "$forker"
assert_eq "$?" 0 "exit status of the writers"
wait_until 10 rss_below 64
echo "afterwards: $(rss_mib) MiB"
umount_ckptfs
