# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests of the Python package; source it after lib.sh.

export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SRC/client/python:$SRC/tests/python:$SRC/tests/frameworks
export CKPTFS_LIB=$BUILD/lib

# program [ARGUMENT...]: a program on standard input; the test ends if it fails. MNT and BACK are in its environment.
program() {
	cat >"$TEST_TMP/program.py"
	MNT=${MNT-} BACK=${BACK-} timeout 100 python3 "$TEST_TMP/program.py" "$@" || die "the program failed: status $?"
}
