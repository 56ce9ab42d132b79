#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount of a user's mount that is in use names the programs, and works after they have ended.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_mount 1001
as_user 1001 sh -c "echo data >'$MNT/file'"
cp "$(command -v tail)" "$TEST_TMP/holder"
as_user 1001 "$TEST_TMP/holder" -f "$MNT/file" >/dev/null 2>&1 &
wait_until 10 pgrep -x holder
holder=$(pgrep -x holder)
wait_until 10 holds "$holder" "$MNT/file"
expect_fail as_user 1001 "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "$MNT is in use by holder (pid $holder). It stays mounted and nothing is lost"
expect_ok as_user 1001 cat "$MNT/file"
kill "$holder"
wait_until 10 _gone "$holder"
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"
