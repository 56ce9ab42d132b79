# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A cluster for tests of ckptfs-srun: each node is a mount namespace with a run directory of its own, and srun, which is
# found in PATH, is a stand-in that starts its tasks there. Source it after verbs.sh.

# cluster N: the allocation has N nodes, node1 to nodeN. Of 0: one, which is here.
cluster() {
	local i
	mkdir -p "$TEST_TMP/bin"
	ln -sf "$CKPTFS" "$TEST_TMP/bin/ckptfs"
	cp "$SRC/mount-scripts/ckptfs-srun" "$TEST_TMP/bin"
	_stand_in >"$TEST_TMP/bin/srun"
	chmod +x "$TEST_TMP/bin/srun"
	export PATH=$TEST_TMP/bin:$PATH SLURM_JOB_ID=8123 SLURM_JOB_NUM_NODES=$(($1 ? $1 : 1)) SRUN_NODES=
	unset CKPTFS
	for ((i = 1; i <= $1; i++)); do
		mkdir -p "$TEST_TMP/node$i"
		unshare -m --propagation private tail -f /dev/null &
		NODES[i]=$!
		SRUN_NODES+=" $!"
		wait_until 10 _other_namespace "$!"
	done
}
NODES=()

_other_namespace() {
	[ "$(readlink "/proc/$1/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ]
}

# on_node I CMD...: on that node.
on_node() {
	local pid=${NODES[$1]}
	shift
	nsenter -t "$pid" -m -- "$@"
}

# As srun does: all have the standard input, signals go to all, the largest exit status counts.
_stand_in() {
	cat <<-'OUTER'
		#!/usr/bin/env bash
		set -u
		nodes=($SRUN_NODES) ntasks='' tasks=()
		echo "srun $*" >>"$TEST_TMP/srun.log"
		while [ $# -gt 0 ]; do
			case $1 in
			--ntasks=*) ntasks=${1#*=} ;;
			-n) ntasks=$2; shift ;;
			--nodes=* | --overlap | --ntasks-per-node=1 | --mem=0 | --cpu-bind=none | --mpi=none | --job-name=* | \
				--unbuffered | --kill-on-bad-exit=0) ;;
			-*) echo "srun: unrecognized option '$1'" >&2; exit 1 ;;
			*) break ;;
			esac
			shift
		done
		here=$((${#nodes[@]} == 0)) nr=$((${#nodes[@]} ? ${#nodes[@]} : 1))
		ntasks=${ntasks:-$nr}
		for ((rank = 0; rank < ntasks; rank++)); do
			node=$((rank * nr / ntasks))
			export SLURM_PROCID=$rank SLURM_NTASKS=$ntasks SLURM_STEP_ID=$$ SLURMD_NODENAME=node$((node + 1))
			if [ "$here" = 1 ]; then
				"$@" <&0 &
			else
				CKPTFS_RUN_DIR=$TEST_TMP/$SLURMD_NODENAME nsenter -t "${nodes[node]}" -m -- "$@" <&0 &
			fi
			tasks+=($!)
		done
		for signal in TERM INT USR1; do
			trap "kill -s $signal ${tasks[*]} 2>/dev/null" "$signal"
		done
		worst=0
		for task in "${tasks[@]}"; do
			while :; do
				wait "$task"
				status=$?
				kill -0 "$task" 2>/dev/null || break
			done
			[ "$status" -le "$worst" ] || worst=$status
		done
		exit "$worst"
	OUTER
}
