#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A directory may be mounted over itself: everyone then goes through the mount, and umount shows it again.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/dir"
echo data >"$TEST_TMP/dir/file"
mount_ckptfs "$TEST_TMP/dir" "$TEST_TMP/dir"
is_mounted "$MNT" || die "not mounted"
assert_eq "$(cat "$MNT/file")" data
echo more >"$MNT/new"
mkdir "$MNT/sub"
assert_eq "$(status_of 'x["backing"], x["mountpoint"]')" "('$MNT', '$MNT')"
run timeout 10 "$CKPTFS" mount "$MNT" "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "lies inside the ckptfs mount $MNT"
umount_ckptfs
assert_eq "$(cat "$TEST_TMP/dir/new")" more
[ -d "$TEST_TMP/dir/sub" ] || die "no sub"
