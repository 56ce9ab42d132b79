#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No files of engine/unit call each other in a circle, so that each can be read with those below it alone.

. "${SRC:?}/tests/lib.sh"

cd "$SRC" || exit
expect_ok python3 tests/lint/calls.py "$BUILD/obj" engine/unit
