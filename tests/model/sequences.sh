#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 1200
# long: 1200
# cpu: 25
# Random sequences of what jobs and people do with checkpoints, against a reference model; some of them cut off by
# power cuts. CKPTFS_TEST_SEED, CKPTFS_TEST_COUNT: others, or more.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/model/model.bash"

# More are in many-sequences.sh; a disk makes them wait too long for as many as these.
if in_memory; then most=$(amount 600 3000); else most=$(amount 200 600); fi
seed=${CKPTFS_TEST_SEED-1}
count=${CKPTFS_TEST_COUNT-$most}

model "$seed" "$count" --racing 0
model "$seed" $((count / 50)) --racing 0 --cuts 200
