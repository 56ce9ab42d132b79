#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A process with 48 MiB of changed pages of a shared mapping is killed while the backing answers nothing: it ends in
# time, and all pages arrive.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

MIB=48

bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/served"
mount_ckptfs "$TEST_TMP/served"
# The kernel begins early to write what a FUSE filesystem has dirty: not here, where it may be told.
bdi=/sys/class/bdi/$(mountpoint -d "$MNT")
{ echo 0 >"$bdi/strict_limit"; } 2>/dev/null
{ echo 100 >"$bdi/max_ratio"; } 2>/dev/null
"$PYTHON" - "$MNT/mapped" $((MIB << 20)) <<'END' &
import mmap, os, signal, sys
size = int(sys.argv[2])
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, size)
m = mmap.mmap(fd, size)
for i in range(0, size, 1 << 20):
	m[i:i + (1 << 20)] = b"m" * (1 << 20)
os.kill(os.getpid(), signal.SIGSTOP)
END
pid=$!
wait_until 20 _stopped "$pid"
kill -STOP "$SERVER"
kill -9 "$pid"
assert_gone_soon "$pid"
status_of "s['requests']['in_flight'], s['requests']['queued']"
kill -CONT "$SERVER"
wait_until 20 status_is "s['requests']['in_flight'] == 0 and s['open_handles'] == 0"
assert_eq "$(stat -c %s "$TEST_TMP/dir/mapped")" $((MIB << 20)) "size"
assert_eq "$(tr -d m <"$TEST_TMP/dir/mapped" | wc -c)" 0 "bytes that did not arrive"
umount_ckptfs
