#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 400
# Random sequences of what jobs and people do with checkpoints, against a reference model; some of them cut off by
# power cuts. CKPTFS_TEST_SEED, CKPTFS_TEST_COUNT: others, or more.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/model/model.bash"

seed=${CKPTFS_TEST_SEED-1}
count=${CKPTFS_TEST_COUNT-600}

model "$seed" "$count" --racing 0
model "$seed" $((count / 20)) --racing 0 --cuts 200
