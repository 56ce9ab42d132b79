#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Only who mounted, and root, may unmount, with and without --force.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_mount 1001
for option in "" --force; do
	# shellcheck disable=SC2086 # none or one
	run as_user 1002 timeout 5 "$CKPTFS" umount $option "$MNT"
	assert_eq "$RC" 1 "$option $OUT"
	assert_contains "$OUT" "$MNT was mounted by uid 1001; only that user and root may unmount it"
	expect_ok as_user 1001 ls "$MNT"
done
daemon=$(daemon_pid)
umount_ckptfs # by root
_gone "$daemon" || die "the daemon has not ended"

CKPTFS_RUN_DIR=$TEST_TMP/roots_run
mount_ckptfs "$BACK" "$TEST_TMP/roots"
for option in "" --force; do
	# shellcheck disable=SC2086 # none or one
	run as_user 1001 timeout 5 "$CKPTFS" umount $option "$MNT"
	assert_eq "$RC" 1 "$option $OUT"
	[ -n "$option" ] || assert_contains "$OUT" "was mounted by uid"
done
ls "$MNT" >/dev/null || die "the mount has suffered"
umount_ckptfs
