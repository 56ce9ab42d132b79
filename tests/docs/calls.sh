#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The rooms of saves call only what stands left of them, and no files of one room call each other in a circle. So each
# file can be read with those below it alone.

. "${SRC:?}/tests/lib.sh"

cd "$SRC" || exit
expect_ok python3 tests/lint/calls.py "$BUILD/obj" engine/{save,journal,cluster,calls,commit}
