#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount says why it could not: here, for want of fusermount3.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_mount 1001
kill -STOP "$(daemon_pid)"
expect_fail as_user 1001 env PATH=/nonexistent "$CKPTFS" umount --force "$MNT"
assert_contains "$OUT" "cannot unmount $MNT: No such file or directory"
expect_ok as_user 1001 "$CKPTFS" umount --force "$MNT"
