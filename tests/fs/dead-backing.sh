#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The server of the backing dies: every call gets its ENOTCONN, the daemon lives and says so; a new mount of ckptfs
# over the restarted server works.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/served"
mount_ckptfs "$TEST_TMP/served"
daemon=$(daemon_pid)
# The way from $MNT to .ckptfs is closed too, once the kernel asks again for the attributes of $MNT.
exec {control}<"$MNT/.ckptfs"
CONTROL_DIR=/proc/self/fd/$control
OPS=(write fsync create rename stat readdir)
for op in "${OPS[@]}"; do
	start_op "$op"
done
kill -9 "$SERVER"
wait_until 10 _gone "$SERVER"
go "${OPS[@]}"
for op in "${OPS[@]}"; do
	wait_until 5 _gone "${WAITER[$op]}"
	assert_eq "$(result "$op")" ENOTCONN "$op"
done
wait_until 10 status_is "s['open_handles'] == 0 and s['requests']['in_flight'] == 0"
assert_eq "$(daemon_pid)" "$daemon" "pid of the daemon"
assert_contains "$(failures_of "[(x['op'], x['path'], x['errno']) for x in f]")" "('write', 'write/file', 'ENOTCONN')"
exec {control}<&-
expect_ok "$CKPTFS" status "$MNT"
assert_contains "$OUT" "failed on the backing: Transport endpoint is not connected"

# The daemon holds the dead filesystem open: a restarted server needs a new mount.
umount -l "$TEST_TMP/served"
bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/served"
expect_fail ls "$MNT"
umount_ckptfs
mount_ckptfs "$TEST_TMP/served"
assert_eq "$(stat -c %s "$MNT/write/file")" 65536
umount_ckptfs
