#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 7200
# heavy: check-model
# As sequences.sh, with other seeds each time, and many more. CKPTFS_TEST_SEED, CKPTFS_TEST_COUNT: these, so many.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/model/model.bash"

seed=${CKPTFS_TEST_SEED-$((RANDOM * 32768 + RANDOM))0000}
count=${CKPTFS_TEST_COUNT-10000}

in_memory
echo "seed $seed"
model "$seed" "$count" --racing 0
model "$seed" "$count" --racing 1
model "$seed" $((count / 10)) --racing 0 --cuts 1000
