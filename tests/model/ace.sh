#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# cpu: 20
# long: 3600
# All sequences of up to three operations on a unit and on single files, cut off by a power cut before each sync: what
# remains is the old or the new, whole, and once recovered and cleared up nothing is hidden. In `make check` a sample.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/model/model.bash"

model "${CKPTFS_TEST_SEED-0}" "$(amount 300 40000)" --ace --racing 0 --cuts 1000000
