#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount clears what a killed daemon left, also while a program still has a file of it open.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
for option in "" --force; do
	for busy in "" busy; do
		mount_ckptfs
		echo data >"$MNT/file"
		stat "$MNT" "$MNT/file" >/dev/null
		[ -z "$busy" ] || exec 9<"$MNT/file"
		kill9_and_reaped "$(daemon_pid)" 10
		# shellcheck disable=SC2086 # none or one
		expect_ok timeout 10 "$CKPTFS" umount $option "$MNT"
		assert_eq "$(ckptfs_mounts)" "" "mounts after umount $option, $busy"
		exec 9<&-
		assert_eq "$(cat "$BACK/file")" data
	done
done
# The next mount and its end remove what the dead left in the run directory.
mount_ckptfs
umount_ckptfs
assert_eq "$(find "$CKPTFS_RUN_DIR" -name '*.sock')" "" "sockets left"
