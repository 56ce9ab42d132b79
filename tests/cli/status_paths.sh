#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# status finds the mount of any path in it: deep inside, missing, through links, in the working directory.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkdir -p "$MNT/a/b/c"
ln -s mnt "$TEST_TMP/link"
ln -s "$MNT/a" "$TEST_TMP/deep"
for path in "$MNT/a/b/c" "$MNT/none/such" "$TEST_TMP/link" "$TEST_TMP/deep/b" "$MNT/.ckptfs/status.json" \
	"$BACK/../mnt" "$TEST_TMP/link/a/../a/b/./c/"; do
	assert_eq "$(status_of 'x["mountpoint"]' "$path")" "$MNT" "status of $path"
done
cd "$MNT/a/b" || die "cannot enter"
assert_eq "$(status_of 'x["mountpoint"]' .)" "$MNT"
assert_eq "$(status_of 'x["mountpoint"]' ..)" "$MNT"
expect_fail "$CKPTFS" status ../../..
assert_contains "$OUT" "../../.. is not on a ckptfs mount"
cd / || die "cannot enter /"
umount_ckptfs
