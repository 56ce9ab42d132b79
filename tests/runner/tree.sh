# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For the runner's own tests: a repository of nothing but a runner, and made-up tests to run in it.
# (Not executable and without #!, so the runner takes it for no test.)

. "$SRC/tests/lib.sh"

TREE=$TEST_TMP/tree
mkdir -p "$TREE/tests/runner" "$TREE/build/bin" "$TEST_TMP/inner"
cp "$SRC/tests/run" "$SRC/tests/lib.sh" "$TREE/tests/" || die "no runner to copy"
cp "$SRC"/tests/runner/*.py "$TREE/tests/runner/" || die "no runner to copy"

# make_test NAME: an executable test in bash; its body comes from stdin, after the #! line.
make_test() {
	mkdir -p "$TREE/tests/${1%/*}"
	{
		printf '#!/usr/bin/env bash\n'
		cat
	} >"$TREE/tests/$1"
	chmod +x "$TREE/tests/$1"
}

# run_tree ARGS...: run the tree's runner; sets $OUT and $RC.
run_tree() {
	run env -u O "$TREE/tests/run" --tmp "$TEST_TMP/inner" "$@"
}

# assert_closing "N passed, N failed, N skipped": the last line.
assert_closing() {
	assert_eq "${OUT##*$'\n'}" "$1" "closing line"$'\n'"$OUT"
}

# assert_nothing_left: no files, mounts, loop devices of the inner run; nor processes.
assert_nothing_left() {
	assert_eq "$(ls -A "$TEST_TMP/inner")" "" "files left behind"
	assert_eq "$(grep -F "$TEST_TMP/inner" /proc/self/mountinfo)" "" "mounts left behind"
	local here=${TEST_TMP%/*}
	assert_eq "$(grep -Fls "/${here##*/}/${TEST_TMP##*/}/inner/" /sys/block/loop*/loop/backing_file)" "" \
		"loop devices left behind"
	assert_eq "$(inner_processes)" "" "processes left behind"
}

# inner_processes: pids of processes whose environment is that of a test in the tree.
inner_processes() {
	local pid
	for pid in /proc/[0-9]*; do
		# The environment of a zombie with a hanging thread is only seen in the thread's.
		if cat "$pid"/task/*/environ 2>/dev/null | tr '\0' '\n' | grep -q "^TEST_TMP=$TEST_TMP/inner/"; then
			printf '%s\n' "${pid#/proc/}"
		fi
	done
}
