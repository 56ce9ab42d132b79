#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses a backing inside a ckptfs mount: the mount itself, a directory in it, a link to it.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkdir -p "$MNT/a/b" "$TEST_TMP/other"
ln -s "$MNT/a" "$TEST_TMP/link"
for backing in "$MNT" "$MNT/a/b" "$TEST_TMP/link/b" "$MNT/missing"; do
	refused 1 "$backing lies inside the ckptfs mount $MNT." "$backing" "$TEST_TMP/other"
done
umount_ckptfs
