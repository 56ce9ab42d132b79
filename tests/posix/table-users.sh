#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every call that ordinary users make on a mount of root's gives what it gives them on a plain directory.
#
# timeout: 240
# needs: root

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs
mkdir "$TEST_TMP/plain"
expect_ok "$BUILD/tests/posix/posixcmp" --as users --without "${CKPTFS_TEST_FEATURES_OFF-}" \
	"$MNT" "$TEST_TMP/plain"
umount_ckptfs
