#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The fake driver fails as it is told to: by code, once or from then on, later, wrongly, slowly, never ending.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/gpu/fake.bash"

ok="CUDA_SUCCESS (0)"
copy=cuMemcpyDtoHAsync_v2

# copies RULES N: $OUT is of N copies with that injected, without the last line.
copies() {
	expect_ok env FAKE_CUDA_INJECT="$1" "$EXERCISE" copies "$2" 8192
	OUT=$(grep -v ^copies <<<"$OUT")
}

copies "" 2
assert_eq "$OUT" "1, $ok, $ok, 0 wrong
2, $ok, $ok, 0 wrong"

copies "$copy:2=2" 3
assert_eq "$OUT" "1, $ok, $ok, 0 wrong
2, CUDA_ERROR_OUT_OF_MEMORY (2), $ok, 16384 wrong
3, $ok, $ok, 0 wrong" "one call fails"

copies "$copy:2+=801" 4
assert_eq "$(grep -c NOT_SUPPORTED <<<"$OUT")" 3 "all calls from the second on fail"

lost="CUDA_ERROR_LAUNCH_FAILED (719)"
copies "$copy:2=719" 3
assert_eq "$(sed -n '2,$s/, [0-9]* wrong//p' <<<"$OUT")" "2, $lost, $lost
3, $lost, $lost" "a sticky error stays"

copies "$copy:2=late=700 cuEventQuery:1=2" 3
bad="CUDA_ERROR_ILLEGAL_ADDRESS (700)"
assert_eq "$(sed -n '2,$s/, [0-9]* wrong//p' <<<"$OUT")" "2, $ok, $bad
3, $bad, $bad" "an operation fails when its turn comes"

copies "$copy:2=flip" 3
assert_eq "$OUT" "1, $ok, $ok, 0 wrong
2, $ok, $ok, 1 wrong
3, $ok, $ok, 0 wrong" "one bit is wrong"

rm -f "$FAKE_CUDA_LOG"
copies "cuEventRecord:2=delay=150000" 3
took=$(awk '/injected cuEventRecord:2/ { at = $1; tid = $3; next } at && $3 == tid { print int(($1 - at) / 1000); exit }' \
	"$FAKE_CUDA_LOG")
[ "$took" -ge 150000 ] || die "the delayed call took $took us"

run env FAKE_CUDA_INJECT="$copy:2=kill" "$EXERCISE" copies 3 4096
assert_eq "$RC $(grep -c wrong <<<"$OUT")" "137 1" "killed in the second copy"

# What hangs goes on when the rule is taken back.
for rule in "cuEventRecord:2=hang" "$copy:2=stall"; do
	rm -f "$FAKE_CUDA_LOG" "$TEST_TMP/out"
	inject_by_file "$rule"
	"$EXERCISE" copies 3 4096 >"$TEST_TMP/out" &
	wait_until 20 logged "injected ${rule%=*}"
	[ "$rule" = "$copy:2=stall" ] && wait_until 20 logged "cuEventSynchronize .*"
	kill -0 $! || die "it should not have ended: $(cat "$TEST_TMP/out")"
	assert_eq "$(cat "$TEST_TMP/out")" "1, $ok, $ok, 0 wrong" "with $rule"
	inject_by_file ""
	wait $! || die "exit status $?"
	assert_eq "$(grep -c " 0 wrong" "$TEST_TMP/out")" 3 "copies with $rule"
done

for rule in "cuNothing:1=2" "$copy=2" "$copy:1=2x" "$copy:1=delay" "$copy:1+2"; do
	run env FAKE_CUDA_INJECT="$rule" "$EXERCISE" copies 1 4096
	assert_eq "$RC" 134 "exit status of a rule that makes no sense"
	assert_contains "$OUT" "cannot make sense of the rule '$rule'"
done
