#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that is killed in the middle of saves over existing files leaves the old or the new file, whole, and what
# was promised; and nothing that is in the way of the next one.
#
# heavy: check-crash
# timeout: 120

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/crash/crash.bash"

needs_fuse

mount_again() {
	mount_ckptfs -o flush_bw=200M
}

# kill_round POINT NAME MODE [NAME2 MODE2]: a program saves to each name again and again, until the daemon is killed.
kill_round() {
	local point=$1 name=$2 names=() daemon
	shift
	daemon=$(daemon_pid) || exit
	cut_at "$point" "$name" "kill:$daemon"
	while [ $# != 0 ]; do
		save_on "$1" "$2"
		names+=("$1")
		shift 2
	done
	was_cut
	wait_until 20 _gone "$daemon"
	end_savers
	check_round "${names[@]}"
}

mount_again
for name in x.pt y.pt; do
	expect_ok "$SAVER" save "$MNT/$name" "$SIZE" 1 "$TEST_TMP/first" sync 1
	FIRST[$name]=2 PROMISED[$name]=1
done
for mode in "${MODES[@]}"; do
	for point in "${POINTS[@]}"; do
		kill_round "$point" x.pt "$mode"
	done
done
for ((i = 0; i < 40; i++)); do
	kill_round "after:$((RANDOM * 10))" x.pt "${MODES[RANDOM % 3]}" y.pt "${MODES[RANDOM % 3]}"
done
umount_ckptfs
check_leavings
for name in x.pt y.pt; do
	check_whole "$BACK" "$name"
done
