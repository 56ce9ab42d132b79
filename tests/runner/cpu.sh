#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The CPU time of a test is that of all its processes, also of a daemon that lives on, and is held to its budget.

. "${SRC:?}/tests/runner/tree.sh"

# busy SECONDS: uses so much CPU time in this process.
# shellcheck disable=SC2016 # for the tests in the tree
busy='busy() { python3 -c "
import time
while time.process_time() < $1:
	pass
"; }'
unset CKPTFS_TEST_SANITIZED
export CKPTFS_TEST_CPU_FACTOR=0.1    # a budget of 1 s is one of 0.1 s

make_test a/cheap.sh </dev/null
make_test a/daemon.sh <<END
# cpu: 1
$busy
(setsid bash -c '$busy; busy 0.2; touch "\$TEST_TMP/done"; sleep 4329' & disown)
until [ -e "\$TEST_TMP/done" ]; do sleep 0.05; done
END
make_test a/foreground.sh <<END
# cpu: 1
$busy
busy 0.05
(busy 0.15)
END
make_test a/within.sh <<END
# cpu: 8
$busy
busy 0.2
END
make_test a/fails.sh <<END
# cpu: 1
$busy
busy 0.2
exit 3
END

run_tree
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "ok      a/cheap.sh"
assert_contains "$OUT" "ok      a/within.sh"
for name in daemon foreground; do
	grep -Eq "^FAIL    a/$name.sh .*: used [0-9.]+ s of CPU time, more than its budget of 0.1 s" <<<"$OUT" ||
		die "a/$name.sh is not over its budget"$'\n'"$OUT"
done
assert_contains "$OUT" "a/fails.sh: exit status 3"
grep -Eq "^CPU time of [45] tests: [0-9]+ s$" <<<"$OUT" || die "no sum"$'\n'"$OUT"
grep -Eq "^ +[0-9.]+ s a/daemon.sh$" <<<"$OUT" || die "the costly tests are not named"$'\n'"$OUT"
assert_closing "2 passed, 3 failed, 0 skipped"

# A machine that is slow, a sanitizer, and who says so gets more.
for more in "CKPTFS_TEST_CPU_FACTOR=9" "CKPTFS_TEST_CPU_FACTOR=0" "CKPTFS_TEST_SANITIZED=1"; do
	run env -u O "$more" "$TREE/tests/run" --tmp "$TEST_TMP/inner" a/foreground.sh
	assert_closing "1 passed, 0 failed, 0 skipped"
done
run_tree --slow 90 a/foreground.sh
assert_closing "1 passed, 0 failed, 0 skipped"

# The usual budget is for tests that are not heavy.
for heavy in "" "# heavy: check-long"; do
	make_test b/costly.sh <<END
$heavy
$busy
busy 0.6
END
	CKPTFS_TEST_CPU_FACTOR=0.05 run_tree b/costly.sh
	case $heavy in
	"") assert_contains "$OUT" "more than its budget of 0.5 s" ;;
	*) assert_closing "1 passed, 0 failed, 0 skipped" ;;
	esac
done
assert_nothing_left
