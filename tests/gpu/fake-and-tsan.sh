#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program that touches host memory while a copy runs there has a data race, which ThreadSanitizer sees.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/gpu/fake.bash"
needs nm

export TSAN_OPTIONS=exitcode=66 FAKE_CUDA_DTOH_GBPS=0.02
expect_ok "$EXERCISE" late 1000000
nm "$EXERCISE" | grep -q __tsan_ || skip "not built with ThreadSanitizer"
run "$EXERCISE" early 1000000
assert_eq "$RC" 66 "exit status"
assert_contains "$OUT" "data race"
