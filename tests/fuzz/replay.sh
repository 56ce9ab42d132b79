#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# Every input in the corpus of a fuzz target, and every one that ever made it crash, passes.

. "${SRC:?}/tests/lib.sh"

for source in "$SRC"/tests/fuzz/*.c; do
	target=$(basename "$source" .c)
	[ "$target" != replay ] || continue
	[ -d "$SRC/tests/fuzz/corpus/$target" ] || die "no corpus for $target"
	inputs=("$SRC/tests/fuzz/corpus/$target")
	[ ! -d "$SRC/tests/fuzz/crashes/$target" ] || inputs+=("$SRC/tests/fuzz/crashes/$target")
	expect_ok "$BUILD/tests/fuzz/$target" "${inputs[@]}"
	printf '%s: %s\n' "$target" "$OUT"
done
