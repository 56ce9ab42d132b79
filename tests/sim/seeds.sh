#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 900
# long: 7200
# cpu: 30
# Random schedules of clusters: nothing that must hold (check.h) is ever wrong. A seed that fails is shrunk to a plan and
# told as a story. CKPTFS_TEST_SEED, CKPTFS_TEST_SEEDS: others, or another number of them.

. "${SRC:?}/tests/lib.sh"

sim=$BUILD/tests/sim/sim
seed=${CKPTFS_TEST_SEED-1}
count=${CKPTFS_TEST_SEEDS-$(amount 300 100000)}

# On each processor a part of them.
parts=$(nproc)
[ "$count" -ge $((parts * 100)) ] || parts=1
each=$((count / parts))
for ((part = 0; part < parts; part++)); do
	"$sim" --seed $((seed + part * each)) --count "$each" >part-$part.txt 2>&1 &
	pids[part]=$!
done
failed=
for ((part = 0; part < parts; part++)); do
	wait "${pids[part]}" || failed=1
	cat part-$part.txt
done
[ ! "$failed" ] || die "a schedule failed: make check-sim ARGS=\"--seed S\" tells the seed S again"
