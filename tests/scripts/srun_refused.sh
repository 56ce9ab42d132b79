#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ckptfs-srun where it cannot mount: it says what is missing, on which node, and what to do, runs nothing, leaves nothing, and
# exits with 125.
# needs: root
# timeout: 120

. "${SRC:?}/tests/cli/verbs.sh"
. "$SRC/tests/scripts/srun.bash"

needs_fuse
[ "$TEST_PRIVATE" = 1 ] || skip "no namespaces of its own, to make nodes of"
needs unshare nsenter setsid
cluster 2
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK"

# refuses STATUS PHRASE ARGS...: the command, which would make a file, is not run.
refuses() {
	local status=$1 phrase=$2
	shift 2
	run timeout 60 ckptfs-srun "$@" touch "$TEST_TMP/was-run"
	assert_eq "$RC" "$status" "$OUT"
	assert_contains "$OUT" "$phrase"
	[ ! -e "$TEST_TMP/was-run" ] || die "the command was run"
	wait_until 10 no_daemons_but
	! on_node 1 grep -F " $MNT " /proc/self/mountinfo || die "still mounted on node1"
}

# One node of two.
python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$TEST_TMP/no-device"
on_node 2 mount --bind "$TEST_TMP/no-device" /dev/fuse
refuses 125 "ckptfs-srun: node2: cannot open /dev/fuse: FUSE is not set up for users on this node. An administrator can: modprobe fuse; chmod 666 /dev/fuse" \
	"$BACK" "$MNT"
assert_contains "$OUT" "ckptfs-srun: nothing was run: it could not be mounted on every node, see above"
on_node 2 umount /dev/fuse
refuses 125 "ckptfs-srun: node1: ckptfs: unknown option 'bogus'" -o bogus=1 "$BACK" "$MNT"
touch "$TEST_TMP/file"
refuses 125 "ckptfs-srun: node1: mkdir: cannot create directory" "$BACK" "$TEST_TMP/file/mnt"
assert_contains "$OUT" "choose a mount point that you may make on each node, such as /tmp/root/ckpt"

# The step itself.
CKPTFS_SRUN_KEEPER=--nonsense refuses 125 "the step that mounts has ended" "$BACK" "$MNT"
assert_contains "$OUT" "srun: unrecognized option '--nonsense'"
cat >"$TEST_TMP/slow" <<-'END'
	#!/bin/sh
	[ "$1" != mount ] || exec tail -f /dev/null
END
chmod +x "$TEST_TMP/slow"
CKPTFS=$TEST_TMP/slow refuses 125 "2 of 2 nodes have not mounted within 1 s (--start)" --start 1 "$BACK" "$MNT"
assert_contains "$OUT" "the step that mounts still waits for something; when that comes it unmounts, and ends"

# Before anything is started.
refuses 125 "MOUNTPOINT is a whole path, the same on every node, not 'mnt'" "$BACK" mnt
refuses 125 "there is no directory $TEST_TMP/none here" "$TEST_TMP/none" "$MNT"
SLURM_JOB_ID='' refuses 125 "this is not inside an allocation of Slurm (SLURM_JOB_ID is not set). Get one: salloc" "$BACK" "$MNT"
PATH=$TEST_TMP/bin:/usr/bin:/bin
rm "$TEST_TMP/bin/ckptfs"
if ! command -v ckptfs >/dev/null; then
	refuses 125 "there is no ckptfs in PATH" "$BACK" "$MNT"
fi
rm "$TEST_TMP/bin/srun"
if ! command -v srun >/dev/null; then
	refuses 125 "there is no srun in PATH" "$BACK" "$MNT"
fi
refuses 2 "there is no option --nodes=2 before BACKING; those of srun come behind MOUNTPOINT" --nodes=2 "$BACK" "$MNT"
refuses 2 "--drain wants whole seconds, not 'x'" --drain x "$BACK" "$MNT"
run ckptfs-srun "$BACK" "$MNT"
assert_eq "$RC" 2 "$OUT"
assert_contains "$OUT" "usage: ckptfs-srun"
expect_ok ckptfs-srun --help
assert_contains "$OUT" "usage: ckptfs-srun"
