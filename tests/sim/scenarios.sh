#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# cpu: 40
# Each scenario of scenarios/ holds under many schedules: what a user relies on when several nodes save. A failing one is
# told as a story. Those of known/ are defects: each must still be found, so that whoever mends one moves its file.

. "${SRC:?}/tests/lib.sh"

SIM=$BUILD/tests/sim/sim
COUNT=10

for plan in "$SRC"/tests/sim/scenarios/*.txt; do
	"$SIM" --plan "$plan" --count "$COUNT" >story.txt || {
		cat story.txt
		die "$plan"
	}
done
for plan in "$SRC"/tests/sim/known/*.txt; do
	expect_ok "$SIM" --plan "$plan" --count 1000 --expect-wrong
done
