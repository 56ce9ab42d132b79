#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What other tests were in the way of (exit status 75) is run once more, alone, and skipped only if they were not it.

. "${SRC:?}/tests/runner/tree.sh"

make_test a/always.sh <<'END'
. "$SRC/tests/lib.sh"
put_off "never the time"
END
make_test a/once.sh <<END
. "\$SRC/tests/lib.sh"
[ -e "$TEST_TMP/tried" ] || { echo >"$TEST_TMP/tried"; put_off "not now"; }
END
make_test a/fails.sh <<END
[ -e "$TEST_TMP/failed" ] || { echo >"$TEST_TMP/failed"; exit 75; }
exit 1
END

run_tree
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "later   a/once.sh: not now"
assert_contains "$OUT" "running alone what could not be run beside others: a/always.sh, a/fails.sh, a/once.sh"
assert_contains "$OUT" "ok      a/once.sh"
assert_contains "$OUT" "skipped:
  a/always.sh: never the time"
assert_closing "1 passed, 1 failed, 1 skipped"

rm "$TEST_TMP/failed" "$TREE/tests/a/fails.sh"
run_tree --retry 1
assert_eq "$RC" 0 "$OUT"
assert_closing "1 passed, 0 failed, 1 skipped"
assert_nothing_left
