#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ckptfs-srun: the command's tasks find a mount on every node; afterwards what they saved is committed, the mounts and their
# daemons are gone, and the exit status is the command's.
# needs: root
# timeout: 120

. "${SRC:?}/tests/cli/verbs.sh"
. "$SRC/tests/scripts/srun.bash"

needs_fuse
[ "$TEST_PRIVATE" = 1 ] || skip "no namespaces of its own, to make nodes of"
needs unshare nsenter setsid
cluster 2
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$TEST_TMP/unit"
touch "$TEST_TMP/unit/"{__0_0.distcp,.metadata}
OPTIONS=host_cache_size=64M,quiet_s=3600

# nothing_left: no mount on any node, no daemon, no keeper.
nothing_left() {
	local i
	for i in 1 2; do
		! on_node "$i" grep -F " $MNT " /proc/self/mountinfo || return 1
	done
	[ -z "$(daemons)" ] && ! pgrep -f -- --keep
}

# both_ready: the two tasks have come so far that they say so.
both_ready() {
	wait_until 30 test -e "$TEST_TMP/ready-0" -a -e "$TEST_TMP/ready-1"
	rm "$TEST_TMP"/ready-*
}

expect_ok timeout 60 ckptfs-srun -o "$OPTIONS" "$BACK" "$MNT" -n 4 sh -c \
	'grep -qF " $1 " /proc/self/mountinfo && echo "$SLURM_PROCID on $SLURMD_NODENAME" >"$1/rank-$SLURM_PROCID.pt" &&
		if [ "$SLURM_PROCID" = 3 ]; then env -u SLURM_PROCID cp -r "$2" "$1/step-1"; fi' - "$MNT" "$TEST_TMP/unit"
assert_eq "$OUT" ""
nothing_left || die "something is left"
assert_eq "$(cat "$BACK"/rank-*.pt)" "0 on node1
1 on node1
2 on node2
3 on node2"
expect_ok "$BUILD/bin/ckptfs" verify "$BACK/step-1" "$BACK"
assert_contains "$(cat "$TEST_TMP/srun.log")" "srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 "

# Its exit status and standard input; without srun.
run timeout 60 ckptfs-srun "$BACK" "$MNT" sh -c 'exit $((7 + SLURM_PROCID))'
assert_eq "$RC" 8 "$OUT"
run timeout 60 ckptfs-srun --no-srun -o "$OPTIONS" "$BACK" "$MNT" sh -c \
	'read -r line && srun -n 1 sh -c "echo $line >$1/one.pt" && srun -n 2 grep -qF " $1 " /proc/self/mountinfo && exit 9' - "$MNT" <<<hello
assert_eq "$RC" 9 "$OUT"
assert_eq "$(cat "$BACK/one.pt")" hello

# A signal goes to the command, and what it has saved then is committed.
ckptfs-srun -o "$OPTIONS" "$BACK" "$MNT" -n 2 bash -c \
	'trap "echo last >$1/last-$SLURM_PROCID.pt; exit 5" USR1; touch "$2-$SLURM_PROCID"; while :; do sleep 0.05; done' - \
	"$MNT" "$TEST_TMP/ready" >"$TEST_TMP/said" 2>&1 &
job=$!
both_ready
kill -USR1 "$job"
wait "$job"
assert_eq "$?" 5 "$(cat "$TEST_TMP/said")"
assert_eq "$(cat "$BACK/last-0.pt" "$BACK/last-1.pt")" $'last\nlast'
nothing_left || die "something is left"

ckptfs-srun -o "$OPTIONS" "$BACK" "$MNT" sh -c 'touch "$1-$SLURM_PROCID"; exec sleep 1000' - "$TEST_TMP/ready" >"$TEST_TMP/said" 2>&1 &
job=$!
both_ready
kill -TERM "$job"
wait "$job"
assert_eq "$?" 143 "$(cat "$TEST_TMP/said")"
nothing_left || die "something is left"

# However it ends: the mounts go.
ckptfs-srun -o "$OPTIONS" "$BACK" "$MNT" sh -c 'touch "$1-$SLURM_PROCID"; exec sleep 1000' - "$TEST_TMP/ready" >"$TEST_TMP/said" 2>&1 &
job=$!
both_ready
kill9_and_reaped "$job" 10
wait_until 30 nothing_left
pkill -x sleep

# What cannot be committed is named, and the status is still the command's.
mkfifo "$TEST_TMP/hold"
ckptfs-srun --drain 1 -o "$OPTIONS" "$BACK" "$MNT" -n 2 sh -c \
	'[ "$SLURM_PROCID" = 0 ] || { setsid sh -c "exec >$1/held.pt; echo x; touch $1/open; read -r _ <$2" & while ! [ -e "$1/open" ]; do sleep 0.05; done; }; exit 3' - \
	"$MNT" "$TEST_TMP/hold" >"$TEST_TMP/said" 2>&1 &
job=$!
wait_until 30 grep -q "is in use by sh" "$TEST_TMP/said"
echo >"$TEST_TMP/hold"
wait "$job"
assert_eq "$?" 3 "$(cat "$TEST_TMP/said")"
said=$(cat "$TEST_TMP/said")
assert_contains "$said" "ckptfs-srun: node2: ckptfs: the checkpoint 'held.pt' of job 0/slurm/8123."
assert_contains "$said" "ckptfs-srun: not everything could be committed, see above"
nothing_left || die "something is left"
assert_eq "$(cat "$BACK/held.pt")" x "what was closed in the end is saved all the same"
