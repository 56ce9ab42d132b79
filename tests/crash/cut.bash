# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The filesystem of the backing is cut off in the middle of saves, as by a power cut, and mounted again.

. "$SRC/tests/crash/crash.bash"

DISK=$TEST_TMP/disk
DISK_OPTIONS=
OPTIONS=flush_bw=200M # so that there is something to cut

mount_again() {
	mount_ckptfs -o "$OPTIONS" "$DISK/back"
}

# ext4 knows of programs that rename without fsync, and helps them: not here.
mount_disk() {
	expect_ok mount ${DISK_OPTIONS:+-o "$DISK_OPTIONS"} "$LOOP_DEV" "$DISK"
}

_disk_is_free() {
	umount "$DISK"
}

# after_cut NAME...: all that was running is gone; what is on the disk then?
after_cut() {
	end_savers
	kill9_and_reaped "$DAEMON" 20
	wait_until 20 _disk_is_free
	mount_disk
	check_round "$@"
}

# cut_round POINT NAME MODE [NAME2 MODE2]: a program saves to each name again and again, until the cut. What it is told
# after that does not count: nobody is told anything after a power cut, but XFS, shut down, has fsync of a directory
# succeed.
cut_round() {
	local point=$1 name=$2
	shift
	DAEMON=$(daemon_pid) || exit
	cut_at "$point" "$name" shutdown "$(_log x.pt)" "$(_log y.pt)"
	while [ $# != 0 ]; do
		save_on "$1" "$2"
		shift 2
	done
	was_cut
}

# cut_off FS: the test.
cut_off() {
	local fs=$1 point mode i

	needs_fuse
	loop_fs "$fs" 320 "$DISK"
	"$CUT" at-once "$DISK" x shutdown >/dev/null 2>&1 || skip "no shutdown ioctl on $fs"
	expect_ok umount "$DISK"
	[ "$fs" != ext4 ] || DISK_OPTIONS=noauto_da_alloc
	mount_disk
	mount_again
	expect_ok "$SAVER" save "$MNT/x.pt" "$SIZE" 1 "$TEST_TMP/first" sync 1
	FIRST[x.pt]=2 PROMISED[x.pt]=1

	for mode in "${MODES[@]}"; do
		for point in "${POINTS[@]}"; do
			cut_round "$point" x.pt "$mode"
			after_cut x.pt
		done
	done
	for ((i = 0; i < 40; i++)); do
		cut_round "after:$((RANDOM * 10))" x.pt "${MODES[RANDOM % 3]}" y.pt "${MODES[RANDOM % 3]}"
		after_cut x.pt y.pt
	done
	umount_ckptfs
	check_leavings
	check_whole "$BACK" x.pt
	check_whole "$BACK" y.pt
}
