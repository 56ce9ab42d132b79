#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A test that takes too long is killed with all its processes, after saying where they hang.

. "${SRC:?}/tests/runner/tree.sh"

make_test a/hang.sh <<'END'
# timeout: 1
echo started
trap '' TERM INT
setsid sleep 4321 &
sleep 4322
END
run_tree -j 1
assert_eq "$RC" 1
assert_contains "$OUT" "FAIL    a/hang.sh (1."
assert_contains "$OUT" ": timed out after 1 s"
assert_contains "$OUT" "    | started"
assert_contains "$OUT" "sleep 4321"
assert_contains "$OUT" "sleep 4322"
assert_contains "$OUT" "wchan"
assert_closing "0 passed, 1 failed, 0 skipped"
assert_nothing_left
