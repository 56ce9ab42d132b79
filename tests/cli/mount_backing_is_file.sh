#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses a backing that is a file, a FIFO or a device.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/mnt"
echo data >"$TEST_TMP/file"
mkfifo "$TEST_TMP/fifo"
for backing in "$TEST_TMP/file" "$TEST_TMP/fifo" /dev/null; do
	refused 1 "the backing $backing is not a directory" "$backing" "$TEST_TMP/mnt"
done
assert_eq "$(cat "$TEST_TMP/file")" data
