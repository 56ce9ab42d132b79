#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a killed daemon leaves at the mount point is cleared by a new mount, which says so.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
echo data >"$MNT/file"
stat "$MNT" >/dev/null # in the kernel's memory
kill9_and_reaped "$(daemon_pid)" 10
expect_ok "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
assert_contains "$OUT" "$MNT held the remains of a dead ckptfs daemon; cleared them"
assert_eq "$(cat "$MNT/file")" data
assert_eq "$(ckptfs_mounts | wc -l)" 1 "mounts"
assert_eq "$(find "$CKPTFS_RUN_DIR" -name '*.sock' | wc -l)" 1 "sockets"
umount_ckptfs

# The mount point has an open file of the dead mount.
mount_ckptfs
hold "$MNT/file"
kill9_and_reaped "$(daemon_pid)" 10
expect_ok "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
assert_contains "$OUT" "cleared them"
assert_eq "$(cat "$MNT/file")" data
quit "$HOLDER"
umount_ckptfs
