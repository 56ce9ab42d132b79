#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A runner that is stopped by a signal ends its tests and cleans up; one that is killed takes its tests along.

. "${SRC:?}/tests/runner/tree.sh"

make_test a/long.sh <<END
touch "$TEST_TMP/running"
sleep 4325
END

start() {
	rm -f "$TEST_TMP/running"
	env -u O "$TREE/tests/run" --tmp "$TEST_TMP/inner" >"$TEST_TMP/output" 2>&1 &
	wait_until 20 test -e "$TEST_TMP/running"
}

start
kill -TERM $!
wait $!
assert_eq $? 143 "exit status of a stopped run"
OUT=$(<"$TEST_TMP/output")
assert_contains "$OUT" "stopped by SIGTERM"
assert_closing "0 passed, 0 failed, 0 skipped"
assert_nothing_left

[ "$TEST_PRIVATE" = 1 ] || exit 0
none_left() {
	[ -z "$(inner_processes)" ]
}
start
kill -KILL $!
wait_until 10 none_left
