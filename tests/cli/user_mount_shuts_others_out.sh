#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# On a user's mount other users and root cannot enter; they get the status, and no verb of theirs hangs.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_mount 1001
chmod 755 "$CKPTFS_RUN_DIR"
as_user 1001 sh -c "umask 0; echo data >'$MNT/file'"
expect_fail as_user 1002 cat "$MNT/file"
assert_contains "$OUT" "Permission denied"
expect_fail cat "$MNT/file"
expect_ok as_user 1002 timeout 2 "$CKPTFS" status --json "$MNT/file"
assert_eq "$(value 'x["mountpoint"]' "$OUT")" "$MNT"
run as_user 1002 timeout 5 "$CKPTFS" mount "$BACK" "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "is a live ckptfs mount already"
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"
