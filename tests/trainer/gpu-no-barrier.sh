#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# A trainer whose tensors are on a GPU, the fake one, and that forgets the barrier: an update while a tensor is captured tears it,
# which is told, by name, and not committed. Where nothing is checked the torn one is committed: so the test could fail.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/trainer/trainer.bash"
. "$SRC/tests/gpu/fake.bash"
unset FAKE_CUDA_LOG

needs_fuse
ELEMENTS=200000
plain_weights 6
export RANK=0 WORLD_SIZE=1 FAKE_CUDA_DTOH_GBPS=0.2
args=(--device cuda --steps 6 --elements "$ELEMENTS" --keep 10)

# compare: sets RIGHT and WRONG to how many committed files are what the plain run had, and are not.
compare() {
	local unit file

	RIGHT=0 WRONG=0
	for unit in "$BACK"/step-*; do
		[ -e "$unit/.ckptfs-commit.json" ] || continue
		for file in __0_0.distcp __0_1.distcp; do
			if cmp -s "$unit/$file" "$TEST_TMP/plain/${unit##*/}/$file"; then
				RIGHT=$((RIGHT + 1))
			else
				WRONG=$((WRONG + 1))
			fi
		done
	done
}

mount_ckptfs -o host_cache_size=16M,flush_bw=20M
run timeout 60 "$trainer" "${args[@]}" --no-barrier "$MNT"
[ "$RC" != 124 ] || die "it hangs: $OUT"
run "$CKPTFS" status "$MNT"
assert_contains "$OUT" "was changed before it was captured: no barrier came before the change (rank 0)"
assert_contains "$OUT" "layers."
run "$CKPTFS" umount "$MNT"
newest_committed
compare
assert_eq "$WRONG" 0 "wrong files that were committed"

mount_ckptfs -o host_cache_size=16M,flush_bw=20M,capture_check=off "$TEST_TMP/back-2" "$TEST_TMP/mnt-2"
run timeout 60 "$trainer" "${args[@]}" --no-barrier "$MNT"
run "$CKPTFS" umount "$MNT"
compare
[ "$WRONG" -gt 0 ] || die "the fake driver tears nothing, $RIGHT files are right: this test shows nothing"

mount_ckptfs -o host_cache_size=16M,flush_bw=20M "$TEST_TMP/back-3" "$TEST_TMP/mnt-3"
expect_ok "$trainer" "${args[@]}" "$MNT"
assert_contains "$OUT" "$WEIGHTS"
umount_ckptfs
compare
assert_eq "$RIGHT $WRONG" "12 0" "files that are right, and wrong"
