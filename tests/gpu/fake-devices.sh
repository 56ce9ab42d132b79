#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The fake driver's devices: as many as asked for, those that CUDA_VISIBLE_DEVICES lets through, with their own names.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/gpu/fake.bash"

export FAKE_CUDA_DEVICES=3

# uuids VISIBLE: the last digits of the devices' UUIDs.
uuids() {
	expect_ok env CUDA_VISIBLE_DEVICES="$1" "$EXERCISE" devices
	assert_eq "$(sed 's/.*\(.\) .*/\1/' <<<"$OUT" | tr '\n' ' ')" "$2" "of CUDA_VISIBLE_DEVICES=$1"
}

expect_ok "$EXERCISE" devices
assert_eq "$OUT" "fa4e0000000040008000000000000001 0000:3A:00.0
fa4e0000000040008000000000000002 0000:3B:00.0
fa4e0000000040008000000000000003 0000:3C:00.0"
uuids 2,0 "3 1 "
uuids GPU-fa4e0000-0000-4000-8000-000000000002 "2 "
uuids 1,9,0 "2 "
for visible in "" -1 GPU-beef; do
	run env CUDA_VISIBLE_DEVICES="$visible" "$EXERCISE" devices
	assert_contains "$OUT" "CUDA_ERROR_NO_DEVICE (100)"
done

expect_ok env FAKE_CUDA_REGISTER_MAX=65536 "$EXERCISE" register 65536
assert_eq "$OUT" "CUDA_SUCCESS (0)"
expect_ok env FAKE_CUDA_REGISTER_MAX=65536 "$EXERCISE" register 69632
assert_eq "$OUT" "CUDA_ERROR_OUT_OF_MEMORY (2)"
