#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One backing may be mounted twice; each mount shows what the other wrote, and they end apart.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs "$TEST_TMP/back" "$TEST_TMP/one"
mount_ckptfs "$TEST_TMP/back" "$TEST_TMP/two"
echo first >"$TEST_TMP/one/file"
assert_eq "$(cat "$TEST_TMP/two/file")" first
echo second >"$TEST_TMP/two/file"
assert_eq "$(cat "$TEST_TMP/one/file")" second
[ "$(daemon_pid "$TEST_TMP/one")" != "$(daemon_pid "$TEST_TMP/two")" ] || die "one daemon"
assert_eq "$(status_of 'x["uuid"]' "$TEST_TMP/one")" "$(status_of 'x["uuid"]' "$TEST_TMP/two")" "uuid"
umount_ckptfs "$TEST_TMP/one"
assert_eq "$(cat "$TEST_TMP/two/file")" second
umount_ckptfs "$TEST_TMP/two"
