#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# When umount returns the daemon has ended, and its socket and label are gone, ten times in a row.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
for _ in {1..10}; do
	mount_ckptfs
	daemon=$(daemon_pid)
	echo data >"$MNT/file"
	umount_ckptfs
	_gone "$daemon" || die "the daemon lives: $(cat "/proc/$daemon/status")"
	run_dir_is_empty || die "left in the run directory: $(ls "$CKPTFS_RUN_DIR")"
done
ln -s mnt "$TEST_TMP/link"
mount_ckptfs
expect_ok "$CKPTFS" umount --timeout 60 "$TEST_TMP/link/."
! is_mounted || die "still mounted"
