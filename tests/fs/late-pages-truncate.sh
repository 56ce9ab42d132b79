#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Processes that stored into shared mappings are killed while the backing holds their pages, and end. Who truncates
# these files then waits, and they are empty in the end; who opens and reads one waits for what was stored.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

FILES=1 # of 1 MiB for each kind of successor: status lists at most 16 requests, and a file may take several

cat >"$TEST_TMP/storer.py" <<'END'
import mmap, os, signal, sys
SIZE = 1 << 20
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, SIZE)
m = mmap.mmap(fd, SIZE)
m[:] = b"S" * SIZE
os.kill(os.getpid(), signal.SIGSTOP)
END
# An open that truncates, and a truncation of a file that was open before.
cat >"$TEST_TMP/truncater.py" <<'END'
import os, signal, sys
name, how = sys.argv[1:]
fd = os.open(name, os.O_CREAT | os.O_RDWR) if how == "fd" else -1
os.kill(os.getpid(), signal.SIGSTOP)
if how == "open":
	os.open(name, os.O_WRONLY | os.O_TRUNC)
elif how == "path":
	os.truncate(name, 0)
else:
	os.ftruncate(fd, 0)
END

successors=()
# then_do CMD...: to be continued when the pages are late.
then_do() {
	"$@" &
	successors+=($!)
	wait_until 10 _stopped $!
}

all_wait() {
	local pids
	pids=$(printf '%s, ' "${successors[@]}")
	status_is "{$pids} <= {w['pid'] for w in s['requests']['waiting']}"
}

# run_on CMD...: until all successors wait; CMD is how the backing stops.
run_on() {
	local storers=() i how pid
	successors=()
	for ((i = 0; i < FILES; i++)); do # before there are stored pages, which an open would write
		then_do "$PYTHON" "$TEST_TMP/truncater.py" "$MNT/fd.$i" fd
	done
	for how in open path fd read; do
		for ((i = 0; i < FILES; i++)); do
			"$PYTHON" "$TEST_TMP/storer.py" "$MNT/$how.$i" &
			storers+=($!)
		done
	done
	for pid in "${storers[@]}"; do
		wait_until 10 _stopped "$pid"
	done
	for how in open path; do
		for ((i = 0; i < FILES; i++)); do
			then_do "$PYTHON" "$TEST_TMP/truncater.py" "$MNT/$how.$i" "$how"
		done
	done
	for ((i = 0; i < FILES; i++)); do
		# shellcheck disable=SC2016 # for the inner shell
		then_do sh -c 'kill -STOP $$; exec cat "$1" >"$2"' sh "$MNT/read.$i" "$TEST_TMP/got.$i"
	done
	"$@"
	kill -9 "${storers[@]}"
	assert_gone_soon "${storers[@]}"
	for pid in "${successors[@]}"; do
		kill -CONT "$pid"
	done
	wait_until 20 all_wait
}

# end_on CMD...: the backing goes on.
end_on() {
	local i how pid
	"$@"
	for pid in "${successors[@]}"; do
		wait "$pid"
		assert_eq "$?" 0 "exit status of a successor"
	done
	wait_until 20 status_is "s['requests']['in_flight'] == 0 and s['open_handles'] == 0"
	for ((i = 0; i < FILES; i++)); do
		for how in open path fd; do
			assert_eq "$(stat -c %s "$BACK/$how.$i")" 0 "size of $how.$i"
		done
		assert_eq "$(tr -d S <"$BACK/read.$i" | wc -c)" 0 "bytes of read.$i that were not stored"
		assert_eq "$(stat -c %s "$TEST_TMP/got.$i") $(tr -d S <"$TEST_TMP/got.$i" | wc -c)" "1048576 0" \
			"size of what was read, and bytes in it that were not stored"
	done
	umount_ckptfs
}

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk" "$TEST_TMP/mnt1"
# Opening and reading on a frozen filesystem waits for nothing: these wait for the pages.
run_on expect_ok fsfreeze -f "$BACK"
end_on expect_ok fsfreeze -u "$BACK"

bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/served"
mount_ckptfs "$TEST_TMP/served" "$TEST_TMP/mnt2"
run_on kill -STOP "$SERVER"
end_on kill -CONT "$SERVER"
