#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# With allow_other, where fuse.conf allows it, others may use a user's mount; where not, mount says why.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_setup 1001
[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to replace fuse.conf in"
[ -e /etc/fuse.conf ] || skip "no /etc/fuse.conf to replace"
: >"$TEST_TMP/strict"
echo user_allow_other >"$TEST_TMP/open"
mount --bind "$TEST_TMP/strict" /etc/fuse.conf
AS=(as_user 1001)
expect_ok as_user 1001 "$CKPTFS" init "$BACK"
refused 1 "refused to mount at $MNT" -o allow_other "$BACK" "$MNT"
assert_contains "$OUT" "user_allow_other"

mount --bind "$TEST_TMP/open" /etc/fuse.conf
expect_ok as_user 1001 "$CKPTFS" mount -o allow_other,host_cache_size=64M "$BACK" "$MNT"
as_user 1001 sh -c "echo data >'$MNT/file'; echo secret >'$MNT/own'; chmod 600 '$MNT/own'"
expect_ok as_user 1002 cat "$MNT/file"
assert_eq "$OUT" data
expect_fail as_user 1002 cat "$MNT/own"
assert_contains "$OUT" "Permission denied"
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"
