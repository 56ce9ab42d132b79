#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Each room of the engine calls only those left of it, and no files of one folder call each other in a circle. So each file
# can be read with those below it alone.

. "${SRC:?}/tests/lib.sh"

ROOMS=(base {format,config,metrics,liveness,rule,gen,backing,cache,coord,content,tensors,flush,views,record,redo}
	{save,journal,cluster,calls,commit,capture,names})

cd "$SRC" || exit
assert_eq "$(printf '%s\n' "${ROOMS[@]}" | sort)" "$(cd engine && ls -d -- */ | tr -d / | sort)"
expect_ok python3 tests/lint/calls.py "$BUILD/obj" "${ROOMS[@]/#/engine/}" engine fs
expect_ok python3 tests/lint/calls.py "$BUILD/obj" fs/cmd
expect_ok python3 tests/lint/calls.py "$BUILD/obj" client
