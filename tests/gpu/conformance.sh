#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# The fake driver does what is expected of the real one; where there is no driver, or no device, that is said.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/gpu/fake.bash"

CONFORMANCE=$BUILD/tests/gpu/conformance

expect_ok timeout 60 "$CONFORMANCE"
assert_contains "$OUT" " assertions: 0 failed, 0 skipped"
[ "$(grep -c ^ok <<<"$OUT")" -ge 60 ] || die "few assertions: $OUT"

expect_ok timeout 60 "$CONFORMANCE" --json
python3 -c 'import json, sys
said = json.loads(sys.argv[1])
assert said["fake"] and said["failed"] == 0 and said["passed"] == len(said["assertions"]), said' "$OUT" ||
	die "the JSON does not say so: $OUT"

run env -u FAKE_CUDA_DIR "$CONFORMANCE"
assert_eq "$RC ${OUT##*$'\n'}" "77 no CUDA device"

# A driver that is not one: what it lacks is named.
mkdir "$TEST_TMP/other"
printf 'int cuInit(void) { return 0; }\n' >"$TEST_TMP/other.c"
expect_ok cc -shared -fPIC -o "$TEST_TMP/other/libcuda.so.1" "$TEST_TMP/other.c"
run env LD_LIBRARY_PATH="$TEST_TMP/other" "$CONFORMANCE"
assert_eq "$RC $OUT" "77 no CUDA driver: libcuda.so.1 has no function cuDriverGetVersion"
