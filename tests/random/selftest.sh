#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-long
# timeout: 120
# randops itself: two plain directories never differ; each kind of deliberate mistake is found, shrunk to a few
# operations, and the sequence it writes fails again when replayed.

. "${SRC:?}/tests/lib.sh"

randops=$BUILD/tests/random/randops
a=$TEST_TMP/a b=$TEST_TMP/b trace=$TEST_TMP/trace
mkdir "$a" "$b"

for seed in 1 2 "$RANDOM"; do
	expect_ok "$randops" --seed "$seed" --ops 5000 "$a" "$b"
done
expect_ok "$randops" --seed 1 --ops 1500 --procs 2 --keep "$a" "$b"
expect_ok "$randops" --compare "$a/randops.p1" "$b/randops.p1"
expect_fail "$randops" --compare "$a/randops.p0" "$b/randops.p1"
expect_ok "$randops" --mode shared --seconds 2 "$a" "$b"

nr_ops() {
	grep -cv -e '^#' -e '^max_size=' -e '^without=' "$trace"
}

for mistake in drop-write short-truncate lost-rename flip-read lost-xattr extra-mtime bad-errno; do
	rm -f "$trace"
	expect_fail env RANDOPS_SELFTEST="$mistake" "$randops" --seed 7 --ops 20000 --out "$trace" "$a" "$b"
	assert_eq "$RC" 1 "exit status with $mistake: $OUT"
	assert_contains "$OUT" "expected (B):"
	[ "$(nr_ops)" -le 6 ] || die "$mistake: shrunk to $(nr_ops) operations only"$'\n'"$OUT"
	expect_fail env RANDOPS_SELFTEST="$mistake" "$randops" --replay "$trace" --no-shrink --out "$trace.2" "$a" "$b"
	expect_ok "$randops" --replay "$trace" "$a" "$b"
done

for mistake in drop-write lost-append; do
	expect_fail env RANDOPS_SELFTEST="$mistake" "$randops" --mode shared --seconds 5 "$a" "$b"
	assert_contains "$OUT" "DIFFERENCE"
done

expect_fail "$randops" --without no_such_thing "$a" "$b"
expect_ok "$randops" --help
assert_contains "$OUT" "copy_range"
