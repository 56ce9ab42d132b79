#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# When mount returns the mount answers, twenty times in a row; it prints nothing.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/back" "$TEST_TMP/mnt"
echo data >"$TEST_TMP/back/file"
for _ in {1..20}; do
	expect_ok "$CKPTFS" mount -o host_cache_size=16M "$TEST_TMP/back" "$TEST_TMP/mnt"
	assert_eq "$OUT" "" "output"
	content=$(cat "$TEST_TMP/mnt/file")
	run timeout 2 "$CKPTFS" status "$TEST_TMP/mnt"
	assert_eq "$RC $content" "0 data" "$OUT"
	expect_ok "$CKPTFS" umount "$TEST_TMP/mnt"
	assert_eq "$OUT" "" "output"
	[ ! -e "$TEST_TMP/mnt/file" ] || die "still mounted"
done
