#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 5400
# heavy: check-long
# The simulator finds each fault that can be built into the engine (engine/base/fault.h): within 10000 seeds, at one where
# nothing is wrong without the fault; or, where chance is slower than that, by one of the scenarios. CKPTFS_TEST_SEEDS: within
# so many seeds.

. "${SRC:?}/tests/lib.sh"

sim=$BUILD/tests/sim/sim
count=${CKPTFS_TEST_SEEDS-10000}

# found_by_scenario FAULT: prints which one.
found_by_scenario() {
	local plan
	for plan in "$SRC"/tests/sim/scenarios/*.txt; do
		if ! "$sim" --fault "$1" --plan "$plan" --count 5 --no-shrink >found.txt; then
			printf '%s, ' "$(basename "$plan")"
			return 0
		fi
	done
	return 1
}

"$sim" --faults >faults.txt
while read -r fault _; do
	where=
	if "$sim" --fault "$fault" --count "$count" --no-shrink >found.txt; then
		where=$(found_by_scenario "$fault") || die "$fault was not found"
	fi
	printf '%-22s %s%s\n' "$fault" "$where" "$(grep -m 1 '^seed' found.txt)"
done <faults.txt
