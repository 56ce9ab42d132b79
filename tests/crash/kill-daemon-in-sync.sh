#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that is killed while the storage holds up a save, in a write, in the fsync of the file or in that of the
# directory, leaves the old or the new file, whole.
#
# heavy: check-crash
# needs: root
# timeout: 120

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"
. "$SRC/tests/crash/crash.bash"

needs_fuse
gated_fs 256 "$TEST_TMP/disk"

mount_again() {
	mount_ckptfs "$TEST_TMP/disk"
}

# Does the storage hold up the daemon $1?
held_up() {
	grep -q '^State:.*D' "/proc/$1"/task/*/status || status_is "s['flush']['in_flight'] > 0"
}

# held_round POINT: there the gate closes; the daemon is killed when it is held up by that, and gone after it opens.
held_round() {
	local daemon
	daemon=$(daemon_pid) || exit
	cut_at "$1" x.pt "freeze:$GATE"
	save_on x.pt "${MODES[RANDOM % 3]}"
	was_cut
	wait_until 20 held_up "$daemon"
	kill -9 "$daemon" || die "cannot kill the daemon"
	gate_open
	wait_until 20 _gone "$daemon"
	end_savers
	check_round x.pt
}

mount_again
expect_ok "$SAVER" save "$MNT/x.pt" "$SIZE" 1 "$TEST_TMP/first" sync 1
FIRST[x.pt]=2 PROMISED[x.pt]=1
for ((i = 0; i < 4; i++)); do
	for point in "${POINTS[@]}"; do
		held_round "$point"
	done
done
umount_ckptfs
check_leavings
check_whole "$BACK" x.pt
