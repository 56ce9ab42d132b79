#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The verbs of tests/lib.sh, those that need neither ckptfs nor root.

. "${SRC:?}/tests/lib.sh"

# ends STATUS TEXT: run the shell code on stdin as a test on a machine that isn't slow; its exit status and a part of
# its output.
ends() {
	# shellcheck disable=SC2016 # for the inner shell
	run env TEST_TMP="$TEST_TMP" TEST_SLOW=1 bash -c '. "$SRC/tests/lib.sh"; eval "$(cat)"' <<<"$(cat)"
	assert_eq "$RC" "$1" "$OUT"
	assert_contains "$OUT" "$2"
}

ends 1 "failed: broken" <<<'die broken'
ends 77 "no moon" <<<'skip "no moon"'
ends 77 "needs the command no-such-thing" <<<'needs bash no-such-thing'
ends 0 "" <<<'assert_eq a a; assert_contains abc b; expect_fail false; expect_ok true'
ends 1 "wanted: b" <<<'assert_eq a b'
ends 1 "text lacks 'x'" <<<'assert_contains abc x'
ends 1 "should have failed: true" <<<'expect_fail true'
ends 1 "ended by signal 6" <<<'expect_fail sh -c "kill -ABRT \$\$"'
ends 1 "exit status 4: sh -c" <<<'expect_ok sh -c "exit 4"'
ends 3 "second
first" <<<'on_exit echo first; on_exit echo second; exit 3'
ends 1 "not within 1 s: test -e nowhere" <<<'wait_until 1 test -e nowhere'
ends 1 "not within 2 s: test -e nowhere" <<<'TEST_SLOW=2 wait_until 1 test -e nowhere'
ends 1 "second" <<<'on_exit echo second; die early'
ends 0 "few" <<<'amount few many'
ends 0 "many" <<<'CKPTFS_TEST_LONG=1 amount few many'

run sh -c 'echo out; echo err >&2; exit 5'
assert_eq "$RC" 5
assert_eq "$OUT" "out"$'\n'"err"

# A process that lives on with our output open does not hold up `run`.
run sh -c 'sleep 4326 & echo $!'
_gone "$OUT" && die "$OUT should be alive"
kill9_and_reaped "$OUT" 10
_gone "$OUT" || die "$OUT should be gone"

# A zombie is gone too.
sleep 4327 &
kill9_and_reaped $! 10

seen=0
third_time() {
	seen=$((seen + 1))
	[ "$seen" = 3 ]
}
wait_until 10 third_time
assert_eq "$seen" 3 "wait_until runs its condition in this shell"
