#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount touches nothing but ckptfs mounts, named by their mount point.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkdir "$MNT/dir"
echo data >"$MNT/file"
for path in "$MNT/dir" "$MNT/file" "$BACK" / /proc "$TEST_TMP/none" "" "$MNT/../back"; do
	for option in "" --force; do
		# shellcheck disable=SC2086 # none or one
		run "$CKPTFS" umount $option "$path"
		assert_eq "$RC" 1 "umount $option $path: $OUT"
		case $path in
		"$BACK" | "$MNT/../back") said="$path lies in the backing of the ckptfs mount $MNT" ;;
		"$MNT"/*) said="$path lies inside the ckptfs mount $MNT. Nothing was unmounted" ;;
		*) said="$path is not on a ckptfs mount" ;;
		esac
		assert_contains "$OUT" "$said"
	done
done
assert_eq "$(cat "$MNT/file")" data
umount_ckptfs
expect_fail "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "$MNT is not on a ckptfs mount"
