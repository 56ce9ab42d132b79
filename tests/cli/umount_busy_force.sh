#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount --force takes a mount away from programs that use it: they get errors, what was acknowledged stays.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
daemon=$(daemon_pid)
exec 9>"$MNT/file"
echo one >&9
expect_ok "$CKPTFS" umount --force "$MNT"
assert_eq "$(ckptfs_mounts)" "" "mounts"
(echo two >&9) 2>/dev/null && die "a write to a mount that was taken away succeeded"
exec 9>&-
wait_until 10 _gone "$daemon"
wait_until 10 run_dir_is_empty
assert_eq "$(cat "$BACK/file")" one
mount_ckptfs
assert_eq "$(cat "$MNT/file")" one
umount_ckptfs
