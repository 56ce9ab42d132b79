#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Which tests run: paths, names, -k, heavy groups; .t binaries with directives in their source.

. "${SRC:?}/tests/runner/tree.sh"

make_test a/one.sh <<'END'
# timeout: 7
# serial
# needs: root
END
make_test a/two.sh </dev/null
make_test crash/slow.sh <<'END'
# heavy: check-crash
END
make_test unit/fine.t </dev/null
mkdir -p "$TREE/build/tests/unit"
mv "$TREE/tests/unit/fine.t" "$TREE/build/tests/unit/"
cp "$TREE/build/tests/unit/fine.t" "$TREE/build/tests/unit/stale.t"
printf '/* timeout: 9 */\n' >"$TREE/tests/unit/fine.c"

list() {
	run_tree --list "$@"
	assert_eq "$RC" 0 "$OUT"
	OUT=${OUT//$'\n'/ }
}

list
assert_eq "$OUT" "a/one.sh a/two.sh unit/fine.t"
list -k tw -k fine
assert_eq "$OUT" "a/two.sh unit/fine.t"
list "$TREE/tests/a"
assert_eq "$OUT" "a/one.sh a/two.sh"
list a/two.sh "$TREE/tests/unit/fine.c"
assert_eq "$OUT" "a/two.sh unit/fine.t"
list --heavy check-crash
assert_eq "$OUT" "crash/slow.sh"
list crash/slow.sh
assert_eq "$OUT" "crash/slow.sh"
list -v
assert_eq "$OUT" \
	"a/one.sh  (timeout 7 s, serial, needs root) a/two.sh  (timeout 60 s) unit/fine.t  (timeout 9 s)"
run_tree nothing/here.sh
assert_eq "$RC" 1
assert_contains "$OUT" "no test at or below 'nothing/here.sh'"

run_tree unit
assert_closing "1 passed, 0 failed, 0 skipped"
assert_contains "$OUT" "stale.t has no source"
make_test a/odd.sh <<'END'
# timeout: soon
END
run_tree a/odd.sh
assert_contains "$OUT" "line 2: cannot make sense of '# timeout: soon'"
assert_closing "0 passed, 1 failed, 0 skipped"
assert_nothing_left
