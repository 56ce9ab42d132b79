#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount says why it cannot use a mount point: it is missing, a file, or not to be reached.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir "$BACK"
echo data >"$BACK/file"
echo data >"$TEST_TMP/file"
mkfifo "$TEST_TMP/fifo"
ln -s circle "$TEST_TMP/circle"
refused 1 "the mount point $TEST_TMP/missing does not exist. Nothing was changed" "$BACK" "$TEST_TMP/missing"
assert_contains "$OUT" "make it with: mkdir -p $TEST_TMP/missing"
[ ! -e "$TEST_TMP/missing" ] || die "mount made the mount point"
refused 1 "the mount point $TEST_TMP/file cannot be used: Not a directory" "$BACK" "$TEST_TMP/file"
refused 1 "the mount point $TEST_TMP/fifo cannot be used: Not a directory" "$BACK" "$TEST_TMP/fifo"
refused 1 "cannot be used: Too many levels of symbolic links" "$BACK" "$TEST_TMP/circle"
refused 1 "cannot be used: No such file or directory" "$BACK" ""
refused 1 "the mount point /a/a/a" "$BACK" "/$(printf 'a/%.0s' {1..3000})"
