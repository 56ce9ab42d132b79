#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A user who may not open /dev/fuse is told so, and whom to ask.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_setup 1001
[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to close /dev/fuse in"
mkdir "$TEST_TMP/dev"
mount -t tmpfs -o mode=755 tmpfs "$TEST_TMP/dev"
mknod -m 600 "$TEST_TMP/dev/fuse" c 10 229
mount --bind "$TEST_TMP/dev/fuse" /dev/fuse || skip "cannot put another /dev/fuse in place"
AS=(as_user 1001)
# The user's own backing may be made ready: nothing in it is the user's concern.
expect_ok as_user 1001 "$CKPTFS" init "$BACK"
refused 1 "cannot use /dev/fuse: Permission denied. Nothing was mounted" "$BACK" "$MNT"
assert_contains "$OUT" "ask the administrator for access"
run as_user 1001 "$CKPTFS" version
assert_contains "$OUT" "Permission denied"
