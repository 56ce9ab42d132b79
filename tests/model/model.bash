# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the tests here share. They spend most of their time waiting, so several run at once.

MODEL=${BUILD:?}/tests/model/model

# model FIRST COUNT OPTIONS...: plays COUNT sequences, from seed FIRST on, in MODEL_JOBS processes.
model() {
	local first=$1 count=$2 jobs=${MODEL_JOBS:-3} part j pids=() failed=0
	shift 2

	part=$(((count + jobs - 1) / jobs))
	for ((j = 0; j < jobs; j++)); do
		"$MODEL" --seed $((first + j * part)) --count "$part" "$@" >"model.$j" &
		pids+=($!)
	done
	for ((j = 0; j < jobs; j++)); do
		wait "${pids[j]}" || failed=1
		cat "model.$j"
	done
	[ "$failed" = 0 ] || die "a sequence fails; again: $MODEL --seed N $* --show"
}
