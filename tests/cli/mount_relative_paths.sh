#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Relative paths, links and dots in backing and mount point mean what they mean to the caller.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir -p "$TEST_TMP/a/back" "$TEST_TMP/b/mnt"
ln -s ../b/mnt "$TEST_TMP/a/link"
echo data >"$TEST_TMP/a/back/file"
cd "$TEST_TMP/a" || die "cannot enter"
for point in ../b/mnt link ./link/ .././a//../b/mnt/. ; do
	expect_ok "$CKPTFS" mount -o host_cache_size=64M back "$point"
	assert_eq "$(cat "$TEST_TMP/b/mnt/file")" data "mounted at $point"
	assert_eq "$(status_of 'x["backing"], x["mountpoint"]' "$point")" "('$TEST_TMP/a/back', '$TEST_TMP/b/mnt')"
	expect_ok "$CKPTFS" umount "$point"
done

cd "$TEST_TMP/b/mnt" || die "cannot enter"
expect_ok "$CKPTFS" mount -o host_cache_size=64M ../../a/back .
assert_eq "$(cat "$TEST_TMP/b/mnt/file")" data
cd / || die "cannot enter /"
expect_ok "$CKPTFS" umount "$TEST_TMP/b/mnt"

cd "$TEST_TMP/a/back" || die "cannot enter"
expect_ok "$CKPTFS" mount -o host_cache_size=64M . ../../b/mnt
assert_eq "$(cat "$TEST_TMP/b/mnt/file")" data
expect_ok "$CKPTFS" umount ../../b/mnt
