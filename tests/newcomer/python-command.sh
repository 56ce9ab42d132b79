#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# python -m ckptfs, wrongly used: one line says what is wrong, and no traceback is ours.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

echo 'print("it ran")' >train.py
said() {
	local status=$1 text=$2
	shift 2
	run python3 -m ckptfs "$@"
	assert_eq "$RC" "$status" "status of python -m ckptfs $*: $OUT"
	assert_contains "$OUT" "$text"
	[[ $OUT != *Traceback* ]] || die "a traceback: $OUT"
}

said 2 'ckptfs: did you mean `python -m ckptfs run train.py --lr 1`?' train.py --lr 1
said 2 'ckptfs: did you mean `python -m ckptfs run none.py`?' none.py
said 2 "there is no 'status' here, only \`run\`; the other verbs are those of the command: \`ckptfs status\`" status /ckpt
said 2 "ckptfs: give a script to run"
said 2 "ckptfs: give a script to run" run
said 2 "ckptfs: -m wants the name of a module" run -m
said 2 "--lr stands before the script" run --lr 1 train.py
said 0 "ckptfs $(sed -n 's/^#define CKPTFS_VERSION *"\(.*\)"/\1/p' "$SRC/client/ckptfs_abi.h")" --version
said 0 "usage: python -m ckptfs run SCRIPT" --help
said 1 "ckptfs: cannot run none.py: there is no such file" run none.py
assert_eq "$(wc -l <<<"$OUT")" 1 "lines"
said 1 "ckptfs: there is no module none.such that could be run" run -m none.such
assert_eq "$(wc -l <<<"$OUT")" 1 "lines"
CKPTFS_REQUIRE=ckpt said 2 "CKPTFS_REQUIRE=ckpt is neither 1, 0 nor an absolute path" run train.py
said 0 "it ran" run train.py
said 0 "it ran" run -m train
