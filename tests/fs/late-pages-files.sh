#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A process that changed many files through shared mappings is killed while the backing answers nothing: it ends in
# time, not file after file, and all pages arrive.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

FILES=16

bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/served"
mount_ckptfs "$TEST_TMP/served"
"$PYTHON" - "$MNT" "$FILES" <<'END' &
import mmap, os, signal, sys
maps = []
for i in range(int(sys.argv[2])):
	fd = os.open("%s/f%d" % (sys.argv[1], i), os.O_CREAT | os.O_RDWR)
	os.ftruncate(fd, 65536)
	maps.append(mmap.mmap(fd, 65536))
	maps[i][:] = b"m" * 65536
os.kill(os.getpid(), signal.SIGSTOP)
END
pid=$!
wait_until 20 _stopped "$pid"
kill -STOP "$SERVER"
kill -9 "$pid"
assert_gone_soon "$pid"
kill -CONT "$SERVER"
wait_until 20 status_is "s['requests']['in_flight'] == 0 and s['open_handles'] == 0"
assert_eq "$(cat "$TEST_TMP"/dir/f* | tr -d m | wc -c)" 0 "bytes that did not arrive"
assert_eq "$(cat "$TEST_TMP"/dir/f* | wc -c)" $((FILES * 65536)) "bytes in all"
umount_ckptfs
