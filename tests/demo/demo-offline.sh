#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 360
# heavy: check-demo
# The demo succeeds without PyTorch, without a package index and without Python, and says what it left out; what
# it kills leaves whole files. Side by side it then shows the example trainer in C.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mkdir "$TEST_TMP/tmp" "$TEST_TMP/build"

# demo [VAR=VALUE...]: with a build directory and a temporary directory of its own.
demo() {
	expect_ok env -u DEMO_OPTS -u DEMO_WITHOUT TMPDIR="$TEST_TMP/tmp" BUILD="$TEST_TMP/build" DEMO_MIB=2 DEMO_SAVE_MIB=32 \
		TRAINER="$BUILD/tests/trainer/trainer" "$@" \
		bash "$SRC/tests/demo/demo.sh"
	assert_eq "$(ls -A "$TEST_TMP/tmp")" "" "files left by the demo"
	! grep "$TEST_TMP/tmp" /proc/self/mountinfo || die "a mount left by the demo"
}

# row LABEL TEXT: the line of the table that begins with LABEL contains TEXT.
row() {
	local line
	line=$(grep "^$1" <<<"$OUT") || die "no row for $1"$'\n'"$OUT"
	assert_contains "$line" "$2"
}

# beside: the table that it ends with.
beside() {
	row "plain directory" "step-4, torn; goes on to the same weights"
	row "on the mount, unmodified" "step-2, verified; goes on to the same weights"
	row "on the mount, lazy" "step-2, verified; goes on to the same weights"
}

demo DEMO_WITHOUT="torch safetensors h5py numpy"
row program "bytes     plain     mount  verdict"
row "PyTorch" "left out: asked for by DEMO_WITHOUT"
row "NumPy" "left out: asked for by DEMO_WITHOUT"
row "tar, dd" identical
assert_contains "$OUT" "demo: identical: 1, left out: 4"
if command -v python3 >/dev/null; then
	row "plain writes of 32 MiB" "identical; "
	row "kill -9 ckptfs, half written" "the old file, whole"
	row "kill -9 ckptfs, half written" "the program got: Transport endpoint is not connected"
	row "kill -9 ckptfs, being flushed" "the old file, whole"
	row "kill -9 the program, half written" "the old file, whole"
	row "saved again, nothing killed" "the new file, whole"
	row "kill -9 ckptfs in step-2 of many files" "step-1 alone is there"
fi
row "Side by side: the example trainer in C, 16 MiB" "(PyTorch is left out: asked for by DEMO_WITHOUT)"
beside
[ ! -e "$TEST_TMP/build/demo-venv" ] || die "made a Python environment for nothing"

demo PYTHON=/nonexistent/python3 TRAINER=/nonexistent/trainer
assert_contains "$OUT" "side by side: left out: neither PyTorch nor /nonexistent/trainer is there"
row "h5py" "left out: no Python 3.8 or later (/nonexistent/python3)"
row "saves, and killing" "left out: no Python 3.8 or later (/nonexistent/python3)"
row "tar, dd" identical

needs python3
demo PIP_NO_INDEX=1 PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS=
row "PyTorch" "left out: "
row "Side by side: the example trainer in C" "(PyTorch is left out: pip install: "
beside
row "safetensors" "left out: "
row "tar, dd" identical
