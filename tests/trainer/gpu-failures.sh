#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# A call of the CUDA driver fails once while a trainer saves: that checkpoint fails, and says which call, with what error, of
# which tensor and rank; the trainer and the daemon go on, and what is saved next commits. Where the GPU is lost the trainer ends by
# itself, and what was committed stays.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/trainer/trainer.bash"
. "$SRC/tests/gpu/fake.bash"

needs_fuse
ELEMENTS=20000
plain_weights 8
export RANK=0 WORLD_SIZE=1
args=(--device cuda --steps 8 --elements "$ELEMENTS" --keep 10)

# Of these the trainer itself calls none; 24 tensors are saved each time, so the 60th is of the third checkpoint or before.
nth=60
for function in cuEventSynchronize cuEventRecord cuEventQuery; do
	mount_ckptfs "$TEST_TMP/back-$function" "$TEST_TMP/mnt-$function"
	expect_ok env FAKE_CUDA_LOG="$TEST_TMP/other" FAKE_CUDA_INJECT="$function:$nth=2" "$trainer" "${args[@]}" "$MNT"
	assert_contains "$OUT" "$WEIGHTS"
	grep -q "injected $function:$nth" "$TEST_TMP/other" || die "call $nth of $function never came"
	said=$OUT$'\n'$(cat "$MNT/.ckptfs/failures.json")
	grep -qE "layers\.[0-9]+\.[a-z_]+: $function on GPU 0: CUDA_ERROR_OUT_OF_MEMORY \(2\): .* \(rank 0\)" <<<"$said" ||
		die "it is not said what failed: $said"
	run "$CKPTFS" umount "$MNT" # 1 where a checkpoint was left that the trainer did not end
	committed=$(find "$BACK" -name .ckptfs-commit.json | wc -l)
	[ "$committed" -lt 8 ] || die "a checkpoint should have failed"
	[ "$committed" -ge 6 ] || die "only $committed of 8 checkpoints are committed"
	[ -e "$BACK/step-8/.ckptfs-commit.json" ] || die "what was saved last is not committed"
	for unit in "$BACK"/step-*; do
		expect_ok cmp "$unit/__0_0.distcp" "$TEST_TMP/plain/${unit##*/}/__0_0.distcp"
		expect_ok cmp "$unit/__0_1.distcp" "$TEST_TMP/plain/${unit##*/}/__0_1.distcp"
	done
done

mount_ckptfs "$TEST_TMP/back-lost" "$TEST_TMP/mnt-lost"
run env FAKE_CUDA_INJECT="cuEventSynchronize:$nth=719" timeout 60 "$trainer" "${args[@]}" "$MNT"
assert_eq "$RC" 1 "exit status of a trainer whose GPU is lost"
assert_contains "$OUT" "CUDA_ERROR_LAUNCH_FAILED (719)"
has_committed() {
	newest_committed
	[ "$NEWEST" -ge 1 ]
}
wait_until 20 has_committed || die "nothing is committed of what was saved before"
expect_ok "$trainer" "${args[@]}" "$MNT"
assert_contains "$OUT" "$WEIGHTS"
umount_ckptfs
