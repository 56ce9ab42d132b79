#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The example trainer, killed in the middle and started anew, ends with the weights of one that ran through.

. "${SRC:?}/tests/lib.sh"

trainer=$BUILD/tests/trainer/trainer
mkdir whole cut

"$trainer" --plain --steps 1000000 --keep 3 cut >cut.out &
pid=$!
wait_until 20 grep -q '^saved step 5$' cut.out
kill -KILL "$pid"
wait "$pid" 2>/dev/null
saved=$(sed -n 's/^saved step //p' cut.out | tail -n 1)
last=$((saved + 10))
mkdir -p "cut/step-$last" # without its end it is no checkpoint

"$trainer" --plain --steps "$last" cut >resumed.out || die "the trainer does not resume"
resumed=$(sed -n 's/^resumed step //p' resumed.out)
[ "$resumed" -ge "$saved" ] || die "it resumed step '$resumed', and step $saved was saved"
"$trainer" --plain --steps "$last" --keep 3 whole >whole.out || die "the trainer does not run through"
assert_eq "$(tail -n 1 resumed.out)" "$(tail -n 1 whole.out)" "weights at the end"
expect_ok cmp "whole/step-$last/__0_1.distcp" "cut/step-$last/__0_1.distcp"

# What it resumes from is checked.
printf x | dd of="whole/step-$last/__0_0.distcp" bs=1 seek=1000 conv=notrunc status=none
expect_fail "$trainer" --plain --steps $((last + 1)) whole
