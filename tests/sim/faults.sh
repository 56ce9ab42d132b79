#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 5400
# heavy: check-long
# The simulator finds each fault that can be built into the engine (engine/base/fault.h), within 10000 seeds, at
# one where nothing is wrong without the fault.

. "${SRC:?}/tests/lib.sh"

sim=$BUILD/tests/sim/sim
"$sim" --faults >faults.txt
while read -r fault _; do
	if "$sim" --fault "$fault" --count 10000 --no-shrink >found.txt; then
		die "$fault was not found: $(tail -1 found.txt)"
	fi
	printf '%-22s %s\n' "$fault" "$(grep -m 1 '^seed' found.txt)"
done <faults.txt
