#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# --retry N: tests that fail are run once more, alone, unless they are more than N.

. "${SRC:?}/tests/runner/tree.sh"

make_test a/always.sh <<'END'
exit 3
END
make_test a/pass.sh <<'END'
exit 0
END
make_test a/once.sh <<END
[ -e "$TEST_TMP/tried" ] || { echo >"$TEST_TMP/tried"; exit 4; }
END

run_tree --retry 1
assert_eq "$RC" 1 "exit status when more failed than are tried again"
assert_contains "$OUT" "FAIL    a/once.sh"
assert_closing "1 passed, 2 failed, 0 skipped"

rm "$TEST_TMP/tried"
run_tree --retry 2
assert_eq "$RC" 1 "exit status when one failed twice"
assert_contains "$OUT" "running again what failed: a/always.sh, a/once.sh"
assert_contains "$OUT" "each is a fault of the test or of what it tests:
  a/once.sh: exit status 4"
assert_contains "$OUT" "failed:
  a/always.sh: exit status 3"
assert_closing "2 passed, 1 failed, 0 skipped"

rm "$TEST_TMP/tried" "$TREE/tests/a/always.sh"
run_tree --retry 2
assert_eq "$RC" 0 "exit status when what failed passed then: $OUT"
assert_contains "$OUT" "a/once.sh: exit status 4"
assert_closing "2 passed, 0 failed, 0 skipped"

rm "$TEST_TMP/tried"
run_tree
assert_eq "$RC" 1 "exit status without --retry"
assert_closing "1 passed, 1 failed, 0 skipped"

run_tree --retry -1
assert_eq "$RC" 2
assert_contains "$OUT" "--retry wants a number of tests"
