#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every call that ordinary users make on a mount of root's gives what it gives them on a plain directory.
# make check runs an eighth of them, another each time; CKPTFS_TEST_SEED: that one.
#
# long: 240
# timeout: 120
# needs: root

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs
mkdir "$TEST_TMP/plain"
PART=$((${CKPTFS_TEST_SEED-$RANDOM} % 8))/8
echo "part $PART"
expect_ok "$BUILD/tests/posix/posixcmp" --part "$(amount "$PART" 0/1)" --as users --without "${CKPTFS_TEST_FEATURES_OFF-}" \
	"$MNT" "$TEST_TMP/plain"
umount_ckptfs
