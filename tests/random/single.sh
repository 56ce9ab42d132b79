#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# long: 120
# Random operations give the same answers in the mount as in a plain directory, and leave the same tree in the
# backing directory after unmounting.
# CKPTFS_TEST_SEED, CKPTFS_TEST_OPS, CKPTFS_TEST_MOUNT_OPTIONS: run another or a longer sequence.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/random/without.bash"

needs_fuse
randops=$BUILD/tests/random/randops
ops=${CKPTFS_TEST_OPS-4000}

for seed in ${CKPTFS_TEST_SEED-$(amount $RANDOM "1 2 3 $RANDOM")}; do
	mount_ckptfs ${CKPTFS_TEST_MOUNT_OPTIONS+-o "$CKPTFS_TEST_MOUNT_OPTIONS"}
	mkdir -p "$TEST_TMP/ref"
	randops_without "$seed"
	expect_ok "$randops" "${WITHOUT[@]}" --seed "$seed" --ops "$ops" --keep "$MNT" "$TEST_TMP/ref"
	umount_ckptfs "$MNT"
	expect_ok "$randops" --compare "$BACK/randops.p0" "$TEST_TMP/ref/randops.p0"
	rm -rf "${BACK:?}/randops.p0" "$TEST_TMP/ref"
done
