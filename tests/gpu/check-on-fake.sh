#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-long
# timeout: 400
# `make check-gpu` works the day that there is a GPU: all of it runs on the fake driver; without a driver it says so.

. "${SRC:?}/tests/lib.sh"

run python3 "$SRC/tests/gpu/kit/check.py" --kit "$BUILD/gpu-kit" --out "$TEST_TMP/none.json" --dir "$TEST_TMP"
if [ "$RC" = 0 ] || [ "$RC" = 1 ]; then
	skip "this machine has a GPU: make check-gpu"
fi
assert_eq "$RC ${OUT##*$'\n'}" "77 skipped: there is no GPU here, no CUDA driver: libcuda.so.1 cannot be loaded: \
libcuda.so.1: cannot open shared object file: No such file or directory"

. "$SRC/tests/gpu/fake.bash"
unset FAKE_CUDA_LOG
export FAKE_CUDA_DTOH_GBPS=1
expect_ok python3 "$SRC/tests/gpu/kit/check.py" --kit "$BUILD/gpu-kit" --out "$TEST_TMP/gpu.json" --dir "$TEST_TMP" \
	--bytes 2100000 --rounds 1 --kills 1
echo "$OUT"
assert_contains "$OUT" "wrong: none; the control tears"
[ ! -e /dev/fuse ] || assert_contains "$OUT" "killed 1 times, it ends with the weights of the host's run"
assert_contains "$OUT" "PyTorch does not run on the fake driver"
[ ! -e /dev/fuse ] || assert_contains "$OUT" "2 of 2 committed, 0 wrong"
python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
assert found["ok"] and len(found["targets"]) == 4, found
capture = found["parts"]["capture"]["found"]
assert {"four times what is lent", "memory of a pool"} <= {one["case"] for one in capture["cases"]}, capture
assert capture["write_10000_tensors_ms"]["value"] > 0 < capture["capture_four_times_lent_GBps"]["value"], capture
' "$TEST_TMP/gpu.json" || die "the JSON does not say so"

expect_ok python3 "$SRC/tests/gpu/kit/check.py" --table "$TEST_TMP/gpu.json"
assert_contains "$OUT" "| step time while captured, of without | - | 1.03 | not measured |"
assert_contains "$OUT" "| daemon_memory |"
assert_contains "$OUT" "| write 10000 tensors ms | "

# What the time does not suffice for is said, and is no failure.
expect_ok python3 "$SRC/tests/gpu/kit/check.py" --kit "$BUILD/gpu-kit" --dir "$TEST_TMP" --seconds 0
assert_contains "$OUT" "skipped modes: the time is up"
