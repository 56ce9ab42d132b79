#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that a passing test leaves running does not outlive the test.

. "${SRC:?}/tests/runner/tree.sh"

make_test a/daemon.sh <<'END'
(trap '' HUP TERM; setsid sleep 4323 & disown)
END
run_tree -j 1
assert_closing "1 passed, 0 failed, 0 skipped"
assert_nothing_left
