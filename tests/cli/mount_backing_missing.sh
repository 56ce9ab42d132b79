#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses a backing that is not there, and does not make it.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/mnt"
missing=$TEST_TMP/no/such
refused 1 "the backing directory $missing does not exist" "$missing" "$TEST_TMP/mnt"
assert_contains "$OUT" "mkdir -p $missing"
[ ! -e "$TEST_TMP/no" ] || die "mount made the backing"
ln -s nowhere "$TEST_TMP/dangling"
refused 1 "does not exist" "$TEST_TMP/dangling" "$TEST_TMP/mnt"
refused 1 "does not exist" "" "$TEST_TMP/mnt"
