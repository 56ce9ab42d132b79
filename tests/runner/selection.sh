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
make_test a/long.sh <<'END'
# cpu: 1
# long: 90
echo "long: ${CKPTFS_TEST_LONG-no}"
for ((i = 0; i < 60000; i++)); do :; done
END
make_test long/all.sh <<'END'
# heavy: check-long
END
list -v --heavy check-long
assert_eq "$OUT" "a/long.sh  (timeout 90 s, cpu 1 s, long) long/all.sh  (timeout 60 s, heavy check-long)"
list --heavy check-crash
assert_eq "$OUT" "crash/slow.sh"
run_tree -v a/long.sh
assert_contains "$OUT" "long: no"
run_tree -v --heavy check-long a/long.sh a/two.sh
assert_contains "$OUT" "long: 1"
assert_closing "2 passed, 0 failed, 0 skipped"
CKPTFS_TEST_CPU_FACTOR=0.001 run_tree a/long.sh
assert_closing "0 passed, 1 failed, 0 skipped"
CKPTFS_TEST_CPU_FACTOR=0.001 run_tree --heavy check-long a/long.sh
assert_closing "1 passed, 0 failed, 0 skipped"
rm "$TREE/tests/a/long.sh"
list -v
assert_eq "$OUT" \
	"a/one.sh  (timeout 7 s, serial, needs root) a/two.sh  (timeout 60 s) unit/fine.t  (timeout 9 s)"
run_tree nothing/here.sh
assert_eq "$RC" 1
assert_contains "$OUT" "no test at or below 'nothing/here.sh'"

run_tree unit
assert_closing "1 passed, 0 failed, 0 skipped"
assert_contains "$OUT" "stale.t has no source"
make_test a/of_each.sh <<'END'
# timeout: 8
echo "words: $TEST_NAME $*"
END
printf '# these\none first word\n\ntwo second\n' >"$TREE/tests/a/of_each.list"
list -v -k of_each
assert_eq "$OUT" "a/one_of_each.sh  (timeout 8 s) a/two_of_each.sh  (timeout 8 s)"
list "$TREE/tests/a/two_of_each.sh"
assert_eq "$OUT" "a/two_of_each.sh"
run_tree -v "$TREE/tests/a/of_each.sh"
assert_contains "$OUT" "words: a/one_of_each.sh first word"
assert_contains "$OUT" "words: a/two_of_each.sh second"
assert_closing "2 passed, 0 failed, 0 skipped"
make_test a/odd.sh <<'END'
# timeout: soon
END
run_tree a/odd.sh
assert_contains "$OUT" "line 2: cannot make sense of '# timeout: soon'"
assert_closing "0 passed, 1 failed, 0 skipped"
assert_nothing_left
