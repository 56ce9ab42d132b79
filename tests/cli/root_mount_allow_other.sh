#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Root's mount is for all users, each with the own rights, unless allow_other=false.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_fuse 1001
mkdir -m 1777 "$TEST_TMP/back"
chmod 1777 "$TEST_TMP/back"
mount_ckptfs
expect_ok as_user 1001 sh -c "echo data >'$MNT/file'"
assert_eq "$(stat -c %u:%g "$BACK/file")" 1001:1001 "owner"
expect_fail as_user 1002 sh -c "echo more >>'$MNT/file'"
umount_ckptfs
mount_ckptfs -o allow_other=false
assert_eq "$(cat "$MNT/file")" data
expect_fail as_user 1001 cat "$MNT/file"
assert_contains "$OUT" "Permission denied"
umount_ckptfs
