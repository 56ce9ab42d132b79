#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses a directory below another backing, at any depth, by any path to it, mounted or not.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/outer" "$TEST_TMP/mnt" "$TEST_TMP/other"
expect_ok "$CKPTFS" init "$TEST_TMP/outer"
deep=$TEST_TMP/outer/$(printf 'd/%.0s' {1..300})
mkdir -p "$deep"
BACK=$TEST_TMP/outer
ln -s "$deep" "$TEST_TMP/link"
deep=${deep%/}
for inner in "$TEST_TMP/outer/d" "$deep" "$TEST_TMP/link" "$TEST_TMP/outer/.ckptfs/txn"; do
	refused 1 "lies inside $TEST_TMP/outer, which is the backing of a ckptfs filesystem already" \
		"$inner" "$TEST_TMP/mnt"
	assert_contains "$OUT" "mount $TEST_TMP/outer itself"
done
expect_ok "$CKPTFS" mount -o host_cache_size=64M "$TEST_TMP/outer" "$TEST_TMP/mnt"
refused 1 "lies inside $TEST_TMP/outer," "$deep" "$TEST_TMP/other"
expect_ok "$CKPTFS" umount "$TEST_TMP/mnt"
