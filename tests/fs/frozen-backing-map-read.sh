#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A process that reads a file through a mapping can be killed while the backing answers nothing.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/served"
mount_ckptfs "$TEST_TMP/served"
start_op map-read
kill -STOP "$SERVER"
go map-read
waits() {
	grep -q '^State:.*[SD]' "/proc/${WAITER[map-read]}/status"
}
wait_until 10 waits
kill -9 "${WAITER[map-read]}"
assert_gone_soon "${WAITER[map-read]}"
kill -CONT "$SERVER"
wait_until 10 status_is "s['open_handles'] == 0"
umount_ckptfs
