#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# status of a path that is on no ckptfs mount says so and how to find the mounts.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/mnt"
for path in "$TEST_TMP" "$TEST_TMP/none" / /proc/self "" $'a\nb' "$(printf 'n%.0s' {1..5000})"; do
	for option in "" --json; do
		# shellcheck disable=SC2086 # none or one
		run timeout 2 "$CKPTFS" status $option "$path"
		assert_eq "$RC" 1 "status $option $path: $OUT"
		[ "${#path}" -gt 2000 ] || assert_contains "$OUT" "$path is not on a ckptfs mount"
	done
done
assert_contains "$("$CKPTFS" status / 2>&1)" "\`ckptfs status\` lists the mounts of this host"

# Hidden below another mount.
[ "$(id -u)" = 0 ] || exit 0
mount_ckptfs
mount -t tmpfs tmpfs "$MNT"
expect_fail "$CKPTFS" status "$MNT"
assert_contains "$OUT" "$MNT is not on a ckptfs mount"
umount -i "$MNT"
expect_ok "$CKPTFS" status "$MNT"
umount_ckptfs
