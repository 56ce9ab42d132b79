# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The filesystem of the backing is cut off in the middle of saves of checkpoints of many files; source it after cut.bash.

. "$SRC/tests/crash/checkpoints.bash"

# cut_off_checkpoints FS: the test.
cut_off_checkpoints() {
	local fs=$1 modes mode i

	needs_fuse
	needs python3
	loop_fs "$fs" 320 "$DISK"
	"$CUT" at-once "$DISK" x shutdown >/dev/null 2>&1 || skip "no shutdown ioctl on $fs"
	expect_ok umount "$DISK"
	# shellcheck disable=SC2034 # for cut.bash
	[ "$fs" != ext4 ] || DISK_OPTIONS=noauto_da_alloc
	mount_disk
	mount_again
	for ((i = 0; i < 40; i++)); do
		modes=(new over late again)
		[ $((i % 5)) = 4 ] || modes=("${modes[i % 4]}")
		DAEMON=$(daemon_pid) || exit
		cut_at "after:$((RANDOM * 10))" none shutdown "$(_log new)" "$(_log over)" "$(_log late)" \
			"$(_log again)"
		for mode in "${modes[@]}"; do
			save_checkpoints "$mode"
		done
		was_cut
		end_savers
		kill9_and_reaped "$DAEMON" 20
		wait_until 20 _disk_is_free
		mount_disk
		if [ "$i" = 20 ]; then # the rest where two names cannot be exchanged
			export CKPTFS_FEATURES_OFF=rename_flags
			EXCHANGES=
		fi
		check_new_round "${modes[@]}"
	done
	umount_ckptfs
	check_recovered
}
