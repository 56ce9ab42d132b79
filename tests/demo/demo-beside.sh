#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 1800
# heavy: check-demo
# The demo ends with a training of PyTorch side by side: plain, on the mount, and lazy, the last without a change of its script.

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs python3
mkdir -p "$TEST_TMP/tmp" "$TEST_TMP/build"
shared=$BUILD/frameworks/venv/bin/python
if "$shared" -c 'import numpy, torch' 2>/dev/null; then    # not installed anew
	expect_ok "$shared" -m venv "$TEST_TMP/build/demo-venv"
	"$shared" -c 'import site; print(site.getsitepackages()[0])' >"$(echo "$TEST_TMP"/build/demo-venv/lib/python3*/site-packages)/shared.pth"
fi
run env TMPDIR="$TEST_TMP/tmp" BUILD="$TEST_TMP/build" CKPTFS_LIB="$BUILD/lib" DEMO_MIB=2 DEMO_SAVE_MIB=128 \
	DEMO_WITHOUT="h5py numpy saves" bash "$SRC/tests/demo/demo.sh"
[[ $OUT != *"torch is left out"* ]] || skip "$(grep -m 1 "torch is left out" <<<"$OUT")"
assert_eq "$RC" 0 "$OUT"
assert_contains "$OUT" "Side by side: PyTorch, AdamW, 64 MiB of state, saved at each 2nd of 6 steps"
assert_contains "$(grep "^plain directory" <<<"$OUT")" "step-4.pt, torn; cannot go on: "
for way in unmodified lazy; do
	assert_contains "$(grep "^on the mount, $way" <<<"$OUT")" "yes    step-2.pt, verified; goes on to the same weights"
done
assert_contains "$(grep "^Beside a training that saves with DCP" <<<"$OUT")" "safetensors loaded 4 tensors of step-"
assert_contains "$OUT" ", from its view; DCP loads the same"
assert_eq "$(ls -A "$TEST_TMP/tmp")" "" "files left by the demo"
