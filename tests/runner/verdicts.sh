#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pass, fail and skip by exit status; what is printed of each; the closing line and the exit status of the run.

. "${SRC:?}/tests/runner/tree.sh"

run_tree
assert_eq "$RC" 1 "exit status when nothing ran"
assert_closing "0 passed, 0 failed, 0 skipped"

make_test a/pass.sh <<'END'
echo hidden
[ -d "$TEST_TMP" ] && [ "$PWD" = "$TEST_TMP" ] && [ "$TMPDIR" = "$TEST_TMP" ] && [ "$TEST_NAME" = a/pass.sh ] &&
	[ "$CKPTFS" = "$BUILD/bin/ckptfs" ] && [ "$CKPTFS_RUN_DIR" = "$TEST_TMP/run" ] &&
	[ "${PATH%%:*}" = "$BUILD/bin" ] && [ -z "$(ls -A)" ] && [ -z "${SLURM_JOB_ID-}${CKPTFS_NODE-}" ] &&
	! read -r _ && [ "$(umask)" = 0022 ] && [ "$(stat -c %a .)" = 755 ]
END
make_test a/skip.sh <<'END'
echo first
echo "the moon is not full"
exit 77
END
SLURM_JOB_ID=1 CKPTFS_NODE=x run_tree
assert_eq "$RC" 0 "exit status of pass and skip"$'\n'"$OUT"
assert_contains "$OUT" "ok      a/pass.sh ("
assert_contains "$OUT" "skip    a/skip.sh: the moon is not full"
[[ $OUT != *hidden* ]] || die "printed the output of a test that passed"
assert_closing "1 passed, 0 failed, 1 skipped"

make_test b/fail.sh <<'END'
seq 300
exit 3
END
make_test b/crash.sh <<'END'
kill -SEGV $$
END
printf '#!/bin/sh\n' >"$TREE/tests/b/plain.sh"
printf '# a helper, no test\n' >"$TREE/tests/b/helper.sh"
run_tree -j 2
assert_eq "$RC" 1 "exit status of failures"
assert_contains "$OUT" "FAIL    b/fail.sh ("
assert_contains "$OUT" "s): exit status 3"
assert_contains "$OUT" "... 100 lines before"
assert_contains "$OUT" "    | 300"
assert_contains "$OUT" "    output: $TREE/build/tests/log/b/fail.sh.log"
assert_contains "$OUT" "--tmp $TEST_TMP/inner b/fail.sh"
assert_contains "$OUT" "killed by SIGSEGV"
assert_contains "$OUT" "b/plain.sh: starts with #! but is not executable"
assert_eq "$(wc -l <"$TREE/build/tests/log/b/fail.sh.log")" 300 "lines of output saved"
assert_closing "1 passed, 3 failed, 1 skipped"
assert_nothing_left

run_tree --keep-failed b/fail.sh
files=$(sed -n 's/^    files: //p' <<<"$OUT")
[ -d "$files" ] || die "the files of a failed test were not kept: $OUT"
