#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every call that root makes on a mount gives what it gives on a plain directory.
#
# timeout: 120
# cpu: 25
# needs: root

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs
mkdir "$TEST_TMP/plain"
expect_ok "$BUILD/tests/posix/posixcmp" --as root --without "${CKPTFS_TEST_FEATURES_OFF-}" \
	"$MNT" "$TEST_TMP/plain"
umount_ckptfs
