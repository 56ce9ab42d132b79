#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# On a frozen backing (fsfreeze) every call that changes something waits, kill -9 ends each, status names them, and
# after the thaw everything goes on under the same daemon.
#
# timeout: 120
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

OPS=(write append fsync ftruncate truncate create open-trunc mkdir unlink rename chmod setxattr fallocate link copy)

frozen_and_thawed() {
	local kind=$1 op daemon
	loop_fs "$kind" 64 "$TEST_TMP/disk.$kind"
	mount_ckptfs "$TEST_TMP/disk.$kind" "$TEST_TMP/mnt.$kind"
	daemon=$(daemon_pid)
	for op in "${OPS[@]}"; do
		start_op "$op"
	done
	expect_ok fsfreeze -f "$BACK"
	go "${OPS[@]}"
	wait_until 10 waits_in 10
	wait_until 10 status_is "len(s['requests']['waiting']) >= 10"
	status_is "any(w['pid'] == ${WAITER[ftruncate]} and w['path'] == 'ftruncate/file' and
		w['op'] in ('SETATTR', 'FTRUNCATE') for w in s['requests']['waiting'])" ||
		die "status does not name the truncater: $(status_of "s['requests']['waiting']")"
	expect_ok timeout 2 "$CKPTFS" status "$MNT"
	assert_contains "$OUT" "WRITE of 'write/file' by pid ${WAITER[write]}"
	for op in "${OPS[@]}"; do
		kill -9 "${WAITER[$op]}" 2>/dev/null
		assert_gone_soon "${WAITER[$op]}"
		# (freezing has flushed the file already: fsync may have nothing to do)
		[ "$op" = fsync ] || assert_eq "$(grep -c ok "$TEST_TMP/result.$op")" 0 "$op did not wait"
	done
	expect_ok fsfreeze -u "$BACK"
	wait_until 20 status_is "s['requests']['in_flight'] == 0"
	expect_ok sh -c "echo thawed >$MNT/after && mv $MNT/after $MNT/later && cat $MNT/later"
	assert_eq "$OUT" thawed
	wait_until 10 status_is "s['open_handles'] == 0"
	assert_eq "$(daemon_pid)" "$daemon" "pid of the daemon"
	umount_ckptfs
}

needs_fuse
frozen_and_thawed ext4
frozen_and_thawed xfs
