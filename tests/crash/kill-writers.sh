#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Programs that are killed in the middle of saves over existing files leave the old or the new file, whole, and what was
# promised; and a mount that goes on, with nothing held.
#
# heavy: check-crash
# timeout: 180

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/crash/crash.bash"

needs_fuse

mount_again() {
	: # it was never gone
}

all_is_over() {
	status_is "not s['pending'] and not s['cache']['dirty'] and not s['cache']['flying']"
}

# kill_round POINT NAME MODE [NAME2 MODE2]...: whoever saves NAME is killed at that point, the others right after.
kill_round() {
	local point=$1 first=$2 mode=$3 names=()
	shift 3
	while [ $# != 0 ]; do
		save_on "$1" "$2"
		names+=("$1")
		shift 2
	done
	save_on "$first" "$mode"
	cut_at "$point" "$first" "kill:${SAVERS[-1]}"
	was_cut
	end_savers
	wait_until 20 all_is_over
	check_round "$first" ${names[@]+"${names[@]}"}
	assert_eq "$(find "$BACK" -maxdepth 1 -name '.ckptfs-*')" "" "staging that is left"
}

# How many saves of x.pt failures.json tells of whose program was killed.
killed_saves() {
	failures_of "sum(x['count'] for x in f if x['path'] == 'x.pt' and 'killed by signal 9' in x['message'])"
}

# One that has written all of it, but not closed it, is killed: it was not done with it.
held() {
	local before failed
	run "$SAVER" check "$BACK/x.pt"
	before=$OUT
	failed=$(killed_saves) || exit
	save_on x.pt hold
	wait_until 20 grep -q held "$(_log x.pt)"
	end_savers
	wait_until 20 all_is_over
	POINT=held
	check_round x.pt
	assert_eq "$FOUND" "$before" "version that a killed program leaves"
	assert_eq "$(killed_saves)" "$((failed + 1))" "failures told"
}

mount_ckptfs -o flush_bw=200M
DAEMON=$(daemon_pid) || exit
expect_ok "$SAVER" save "$MNT/x.pt" "$SIZE" 1 "$TEST_TMP/first" sync 1
FIRST[x.pt]=2 PROMISED[x.pt]=1
for mode in "${MODES[@]}"; do
	for point in "${POINTS[@]}"; do
		kill_round "$point" x.pt "$mode"
	done
	held
done
for ((i = 0; i < 40; i++)); do
	kill_round "after:$((RANDOM * 5))" x.pt "${MODES[RANDOM % 3]}" y.pt "${MODES[RANDOM % 3]}" \
		z.pt "${MODES[RANDOM % 3]}"
done
assert_eq "$(daemon_pid)" "$DAEMON" "the daemon"
umount_ckptfs
