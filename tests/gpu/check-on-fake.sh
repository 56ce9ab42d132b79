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
python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
assert found["ok"] and len(found["targets"]) == 4, found' "$TEST_TMP/gpu.json" || die "the JSON does not say so"
