#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# On a frozen backing SIGTERM ends a waiting process, and one that handles the signal gets EINTR.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
loop_fs ext4 64 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
HANDLERS=(write create rename truncate unlink)
for op in "${HANDLERS[@]}"; do
	start_op -a "$op"
done
start_op mkdir
expect_ok fsfreeze -f "$BACK"
go "${HANDLERS[@]}" mkdir
wait_until 10 waits_in 6
kill "${WAITER[mkdir]}"
assert_gone_soon "${WAITER[mkdir]}"
for op in "${HANDLERS[@]}"; do
	wait_until 5 _gone "${WAITER[$op]}" # the alarm comes after a second
	assert_eq "$(result "$op")" EINTR "$op"
done
expect_ok fsfreeze -u "$BACK"
wait_until 20 status_is "s['requests']['in_flight'] == 0"
# A create whose caller was gone is taken back or leaves an empty file, never an open one.
wait_until 10 status_is "s['open_handles'] == 0"
expect_ok touch "$MNT/works"
umount_ckptfs
