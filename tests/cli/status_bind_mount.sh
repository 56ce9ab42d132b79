#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# status works from a bind mount of the mount or of a directory in it, as containers have them.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkdir -p "$MNT/job/dir" "$TEST_TMP/all" "$TEST_TMP/part"
expect_ok mount --bind "$MNT" "$TEST_TMP/all"
expect_ok mount --bind "$MNT/job" "$TEST_TMP/part"
for path in "$TEST_TMP/all" "$TEST_TMP/all/job" "$TEST_TMP/part" "$TEST_TMP/part/dir"; do
	assert_eq "$(status_of 'x["mountpoint"], x["state"]' "$path")" "('$MNT', 'live')" "status of $path"
done
# From a mount namespace that has nothing but the bind mount.
# shellcheck disable=SC2016 # for the inner shell
expect_ok unshare -m sh -c 'umount -i "$1" && "$CKPTFS" status "$2"' sh "$MNT" "$TEST_TMP/part/dir"
umount -i "$TEST_TMP/all" "$TEST_TMP/part"
umount_ckptfs
