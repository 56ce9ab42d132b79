#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where a user may not write, init says so and a mount works without; init by the owner, then, helps both.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_setup 1001
chown 0:0 "$BACK"
expect_fail as_user 1001 "$CKPTFS" init "$BACK"
assert_eq "$RC" 1
assert_contains "$OUT" "cannot make $BACK/.ckptfs: Permission denied. Nothing else was changed"
assert_contains "$OUT" "run ckptfs init as a user who may write there"
mkdir -m 777 "$BACK/job"
chmod 777 "$BACK/job"
expect_ok as_user 1001 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
expect_ok as_user 1001 sh -c "echo data >'$MNT/job/file'"
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"
assert_eq "$(cat "$BACK/job/file")" data

expect_ok "$CKPTFS" init "$BACK"
expect_ok as_user 1001 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
assert_eq "$(status_of 'x["uuid"]')" "$(value 'x["uuid"]' "$(cat "$BACK/.ckptfs/version.json")")"
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"

# A read-only filesystem, for root.
mkdir "$TEST_TMP/ro"
expect_ok mount -t tmpfs -o ro tmpfs "$TEST_TMP/ro"
expect_fail "$CKPTFS" init "$TEST_TMP/ro"
assert_contains "$OUT" "cannot make $TEST_TMP/ro/.ckptfs: Read-only file system"
