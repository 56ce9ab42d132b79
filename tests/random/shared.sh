#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# long: 120
# cpu: 20
# Several processes and threads write, read, map, rename and append to the same files: nothing lost, torn or foreign,
# in the mount at the end and in the backing directory after unmounting.
# CKPTFS_TEST_SEED, CKPTFS_TEST_SECONDS, CKPTFS_TEST_MOUNT_OPTIONS: run another or a longer one.

. "${SRC:?}/tests/lib.sh"

needs_fuse
randops=$BUILD/tests/random/randops

mount_ckptfs ${CKPTFS_TEST_MOUNT_OPTIONS+-o "$CKPTFS_TEST_MOUNT_OPTIONS"}
mkdir "$TEST_TMP/ref"
expect_ok "$randops" --mode shared --seed "${CKPTFS_TEST_SEED-$RANDOM}" --seconds "${CKPTFS_TEST_SECONDS-$(amount 4 10)}" \
	--procs 3 --threads 2 --keep "$MNT" "$TEST_TMP/ref"
umount_ckptfs "$MNT"
expect_ok "$randops" --compare "$BACK/randops.shared" "$TEST_TMP/ref/randops.shared"
