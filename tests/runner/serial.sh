#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests run side by side with -j, but a serial one has the machine for itself.

. "${SRC:?}/tests/runner/tree.sh"

for name in a b; do
	make_test "par/$name.sh" <<END
. "\$SRC/tests/lib.sh"
touch "$TEST_TMP/met-$name"
wait_until 20 test -e "$TEST_TMP/met-a" -a -e "$TEST_TMP/met-b"
END
	make_test "ser/$name.sh" <<END
# serial
# The pause is what another test would have to fall into.
mkdir "$TEST_TMP/alone" && sleep 0.2 && rmdir "$TEST_TMP/alone"
END
done
run_tree -j 4
assert_closing "4 passed, 0 failed, 0 skipped"
assert_nothing_left
