#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The fake driver's copy engines: first come first served, one for all processes; memory that is not registered.
# Times are only compared with what they must at least be.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/gpu/fake.bash"

# 0.1 GB/s: 8 MB take 80 ms, which a small copy behind them has to wait.
took=$(FAKE_CUDA_DTOH_GBPS=0.1 "$EXERCISE" overtake 8000000)
[ "$took" -ge 80000000 ] || die "4 bytes behind 8 MB took $took ns"

# Two processes with 10 copies of 10 ms each keep the engine for 200 ms.
echo "dtoh_gbps=0.1" >"$FAKE_CUDA_DIR/config"
mkfifo "$TEST_TMP/start1" "$TEST_TMP/start2"
for i in 1 2; do
	"$EXERCISE" rush 10 1000000 <"$TEST_TMP/start$i" >"$TEST_TMP/out$i" &
	eval "exec {fd$i}>$TEST_TMP/start$i"
done
wait_until 20 grep -q ready "$TEST_TMP/out1"
wait_until 20 grep -q ready "$TEST_TMP/out2"
# shellcheck disable=SC2154 # set by eval
echo go >&"$fd1"
# shellcheck disable=SC2154
echo go >&"$fd2"
wait
took=$(sort "$TEST_TMP/out1" "$TEST_TMP/out2" | awk '/[0-9]/ { if (!first || $1 < first) first = $1; if ($2 > last) last = $2 }
	END { print int((last - first) / 1000) }')
[ "$took" -ge 200000 ] || die "20 copies of 10 ms took $took us"
rm "$FAKE_CUDA_DIR/config"

# Registered memory, and not; in the log each copy begins and ends.
expect_ok "$EXERCISE" copies 3 4096
assert_contains "$OUT" "copies 3 pageable 0"
rm "$FAKE_CUDA_LOG"
expect_ok "$EXERCISE" copies 3 4096 pageable
assert_contains "$OUT" "copies 3 pageable 3"
assert_eq "$(grep -cE '^[0-9]+ [0-9]+ [0-9]+ begin engine=0 bytes=4096 pageable=1$' "$FAKE_CUDA_LOG")" 3 "copies begun"
assert_eq "$(grep -c ' end engine=0 bytes=4096$' "$FAKE_CUDA_LOG")" 3 "copies ended"
assert_eq "$(ls "$FAKE_CUDA_DIR")" engines "left behind"
