#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# long: 900
# cpu: 40
# Each scenario of scenarios/ holds under many schedules: what a user relies on when several nodes save. A failing one is
# told as a story. Those of known/ are defects: in check-long each must still be found, so that whoever mends one moves its
# file.

. "${SRC:?}/tests/lib.sh"

SIM=$BUILD/tests/sim/sim
COUNT=$(amount 5 30)

for plan in "$SRC"/tests/sim/scenarios/*.txt; do
	"$SIM" --plan "$plan" --count "$COUNT" >story.txt || {
		cat story.txt
		die "$plan"
	}
done
[ -n "${CKPTFS_TEST_LONG-}" ] || exit 0
for plan in "$SRC"/tests/sim/known/*.txt; do
	expect_ok "$SIM" --plan "$plan" --count 1000 --expect-wrong
done
