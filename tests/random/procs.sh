#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# long: 120
# Four processes at a time, each with its own random operations in its own directory of one mount: as single.sh.
# CKPTFS_TEST_SEED, CKPTFS_TEST_OPS, CKPTFS_TEST_MOUNT_OPTIONS: run another or a longer sequence.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/random/without.bash"

needs_fuse
randops=$BUILD/tests/random/randops
procs=4
seed=${CKPTFS_TEST_SEED-$RANDOM}

mount_ckptfs ${CKPTFS_TEST_MOUNT_OPTIONS+-o "$CKPTFS_TEST_MOUNT_OPTIONS"}
mkdir "$TEST_TMP/ref"
randops_without "$seed"
expect_ok "$randops" "${WITHOUT[@]}" --seed "$seed" --ops "${CKPTFS_TEST_OPS-$(amount 1000 2500)}" --procs "$procs" --keep \
	"$MNT" "$TEST_TMP/ref"
umount_ckptfs "$MNT"
for ((i = 0; i < procs; i++)); do
	expect_ok "$randops" --compare "$BACK/randops.p$i" "$TEST_TMP/ref/randops.p$i"
done
