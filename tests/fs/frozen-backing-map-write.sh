#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A process that changed a file through a shared mapping can be killed while the backing answers nothing: in msync,
# and when its end is what writes the pages.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

dirtied() {
	grep -q '^State:.*S' "/proc/${WAITER[map-exit]}/status"
}

bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/served"
mount_ckptfs "$TEST_TMP/served"
start_op map-write
start_op map-exit
kill -STOP "$SERVER"
go map-write map-exit
wait_until 10 waits_in 1
wait_until 10 dirtied
for op in map-write map-exit; do
	kill -9 "${WAITER[$op]}"
	assert_gone_soon "${WAITER[$op]}"
done
kill -CONT "$SERVER"
wait_until 10 status_is "s['open_handles'] == 0"
for op in map-write map-exit; do
	assert_eq "$(tr -d m <"$MNT/$op/file" | wc -c)" 0 "what the mapping had changed"
done
umount_ckptfs
