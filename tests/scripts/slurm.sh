#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Prolog and epilog of Slurm, as slurmd runs them, with next to no environment: the prolog fails a job where the mount is
# missing, dead or silent, and says why; the epilog commits what the job left, names what it cannot, keeps its bound, and
# exits with 0 whatever happens.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/bin"
ln -s "$CKPTFS" "$TEST_TMP/bin/ckptfs"
conf=$TEST_TMP/slurm.conf

# slurmd SCRIPT [NAME=VALUE...]: sets $OUT and $RC.
slurmd() {
	local script=$SRC/mount-scripts/slurm-$1
	shift
	run timeout 60 env -i "PATH=$TEST_TMP/bin" "CKPTFS_RUN_DIR=$CKPTFS_RUN_DIR" "CKPTFS_SLURM_CONF=$conf" "TMPDIR=$TMPDIR" \
		SLURM_JOB_ID=8123 SLURMD_NODENAME=n07 "$@" "$script"
}

# refused_by_prolog PHRASE
refused_by_prolog() {
	slurmd prolog
	assert_eq "$RC" 1 "$OUT"
	assert_contains "$OUT" "job 8123 is not started on n07: "
	assert_contains "$OUT" "$1"
}

# epilog [NAME=VALUE...]: it exits with 0.
epilog() {
	slurmd epilog "$@"
	assert_eq "$RC" 0 "$OUT"
}

MNT=$TEST_TMP/mnt
mkdir "$MNT"
refused_by_prolog "no mount is named: write CKPTFS_MOUNTS=/MOUNTPOINT (several: with blanks between) to $conf"
epilog
assert_contains "$OUT" "nothing is drained, as $conf, which names the mounts, cannot be read"
echo "CKPTFS_MOUNTS='$MNT'" >"$conf"
refused_by_prolog "$MNT is no ckptfs mount that answers: "
assert_contains "$OUT" "is not on a ckptfs mount"
assert_contains "$OUT" "scontrol update nodename=n07 state=resume"
slurmd prolog SLURM_SCRIPT_CONTEXT=prolog_task
assert_contains "$OUT" $'\nprint ckptfs: job 8123 is not started on n07: '
epilog
assert_contains "$OUT" "is not on a ckptfs mount"

mount_ckptfs -o quiet_s=3600,flush_bw=2M
slurmd prolog
assert_eq "$RC $OUT" "0 "
epilog
assert_eq "$OUT" ""

# What the job has left, which all writers did well, is committed; that of another is left alone.
mkdir "$TEST_TMP/unit"
touch "$TEST_TMP/unit/"{__0_0.distcp,.metadata}
for job in 8123 9; do
	SLURM_JOB_ID=$job cp -r "$TEST_TMP/unit" "$MNT/step-$job"
done
epilog
assert_eq "$OUT" ""
expect_ok "$CKPTFS" verify "$BACK/step-8123"
[ ! -e "$BACK/step-9" ] || die "the epilog of another job has committed it"

# What one that was killed was writing is named.
SLURM_JOB_ID=8123 python3 -c 'import os, sys
with open(sys.argv[1], "wb", buffering=0) as f:
	f.write(b"x" * 1000)
	os.kill(os.getpid(), 9)' "$MNT/torn.pt" 2>/dev/null
epilog
assert_contains "$OUT" "ckptfs: job 8123 on n07: $MNT: ckptfs: a process that was writing 'torn.pt' was killed by signal 9"

# The bound holds while bytes move.
head -c 20000000 /dev/urandom >"$TEST_TMP/bytes"
SLURM_JOB_ID=8123 cp "$TEST_TMP/bytes" "$MNT/large.pt"
echo "CKPTFS_DRAIN_MAX_S=1" >>"$conf"
epilog
assert_contains "$OUT" "$MNT: not drained within 1 s; it goes on with that"
rm "$MNT/large.pt"

# A daemon that hangs; and one that is dead. Neither takes long.
daemon=$(daemon_pid)
kill -STOP "$daemon"
refused_by_prolog "the daemon of $MNT (pid $daemon) does not answer"
epilog
kill -CONT "$daemon"
kill9_and_reaped "$daemon" 10
refused_by_prolog "the daemon of $MNT is not running"
epilog
assert_contains "$OUT" "the daemon of $MNT is not running"
umount_ckptfs

epilog SLURM_JOB_ID=
assert_contains "$OUT" "SLURM_JOB_ID is not set"
echo ")" >"$conf"
epilog
assert_contains "$OUT" "cannot be read"
refused_by_prolog "$conf cannot be read"
echo "CKPTFS_MOUNTS='$MNT'" >"$conf"
run env -i PATH=/nonexistent "CKPTFS_SLURM_CONF=$conf" "$(command -v sh)" "$SRC/mount-scripts/slurm-prolog"
[ "$RC" = 1 ] || die "the prolog passes: $OUT"
