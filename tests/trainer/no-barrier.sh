#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# A trainer that forgets the barrier, while captures are slow: what changed before it was captured is told so, by name, and is not
# committed; what is committed is what was saved, where all is checked and not a sample. With the barrier, all of it is.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/trainer/trainer.bash"

needs_fuse
ELEMENTS=500000
plain_weights 6
for ((i = 0; i < 3; i++)); do
	mount_ckptfs -o host_cache_size=8M,flush_bw=40M,capture_check=all "$TEST_TMP/back-$i" "$TEST_TMP/mnt-$i"
	run env RANK=0 WORLD_SIZE=1 timeout 60 "$trainer" --no-barrier --steps 6 --elements "$ELEMENTS" --keep 10 "$MNT"
	[ "$RC" != 124 ] || die "it hangs: $OUT"
	run "$CKPTFS" status "$MNT"
	told=${told-}$OUT
	run "$CKPTFS" umount "$MNT"
	newest_committed
	for unit in "$BACK"/step-*; do
		[ -e "$unit" ] || continue
		# What it has is what the plain run had.
		for file in __0_0.distcp __0_1.distcp .metadata; do
			[ ! -e "$TEST_TMP/plain/${unit##*/}" ] || expect_ok cmp "$unit/$file" "$TEST_TMP/plain/${unit##*/}/$file"
		done
	done
done
assert_contains "$told" "was changed before it was captured: no barrier came before the change (rank 0)"
mount_ckptfs -o host_cache_size=8M,flush_bw=40M "$TEST_TMP/back" "$TEST_TMP/mnt"
expect_ok env RANK=0 WORLD_SIZE=1 "$trainer" --steps 6 --elements "$ELEMENTS" --keep 10 "$MNT"
assert_contains "$OUT" "$WEIGHTS"
umount_ckptfs
assert_eq "$(find "$BACK" -name .ckptfs-commit.json | wc -l)" 6 "committed checkpoints"
