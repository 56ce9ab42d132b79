#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What fusermount3 refuses an ordinary user is told, with its reason.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_setup 1001
AS=(as_user 1001)
expect_ok as_user 1001 "$CKPTFS" init "$BACK"
mkdir "$TEST_TMP/roots"
refused 1 "the kernel or fusermount3 refused to mount at $TEST_TMP/roots" "$BACK" "$TEST_TMP/roots"
assert_contains "$OUT" "user has no write access to mountpoint"
assert_contains "$OUT" "Nothing was changed"

# Without the program.
[ "$TEST_PRIVATE" = 1 ] || exit 0
mount --bind /dev/null "$(command -v fusermount3)" || exit 0
refused 1 "the kernel or fusermount3 refused to mount at $MNT" "$BACK" "$MNT"
