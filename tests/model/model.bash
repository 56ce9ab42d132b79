# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the tests here share. They wait for disks and threads as much as they work, so several run at once.

MODEL=${BUILD:?}/tests/model/model
MODEL_TMP=$TEST_TMP # where the backings are

# in_memory: the backings lie on a tmpfs from here on. False: there can be none, or it cannot do what the disk can.
in_memory() {
	local memory=$TEST_TMP/memory

	mkdir "$memory" && mount -t tmpfs -o mode=755 tmpfs "$memory" 2>/dev/null || return
	if [ "$(TEST_TMP=$memory "$MODEL" --lacks)" != "$("$MODEL" --lacks)" ]; then
		umount "$memory"
		return 1
	fi
	MODEL_TMP=$memory
}

# model FIRST COUNT OPTIONS...: plays COUNT sequences, from seed FIRST on, in MODEL_JOBS processes.
model() {
	local first=$1 count=$2 jobs=${MODEL_JOBS:-3} part j pids=() failed=0
	shift 2

	part=$(((count + jobs - 1) / jobs))
	for ((j = 0; j < jobs; j++)); do
		TEST_TMP=$MODEL_TMP "$MODEL" --seed $((first + j * part)) --count "$part" "$@" >"model.$j" &
		pids+=($!)
	done
	for ((j = 0; j < jobs; j++)); do
		wait "${pids[j]}" || failed=1
		cat "model.$j"
	done
	[ "$failed" = 0 ] || die "a sequence fails; again: $MODEL --seed N $* --show"
}
