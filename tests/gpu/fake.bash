# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For tests on the fake driver: sourced after lib.sh.

# shellcheck disable=SC2034 # for tests
EXERCISE=$BUILD/tests/gpu/exercise
export LD_LIBRARY_PATH=$BUILD/tests/fakecuda
export FAKE_CUDA_DIR=$TEST_TMP/cuda FAKE_CUDA_LOG=$TEST_TMP/calls
mkdir -p "$FAKE_CUDA_DIR"

# logged PATTERN: a line of the log has it.
logged() {
	grep -qE "$1" "$FAKE_CUDA_LOG"
}

# inject_by_file RULES: from now on, in programs that run, too.
inject_by_file() {
	printf '%s\n' "$1" >"$FAKE_CUDA_DIR/.new" && mv "$FAKE_CUDA_DIR/.new" "$FAKE_CUDA_DIR/inject"
}
