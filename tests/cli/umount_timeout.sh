#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where the backing holds the daemon up, umount says after --timeout that the mount is gone and the daemon is not.
# needs: root
# timeout: 120

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
loop_fs ext4 64 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
daemon=$(daemon_pid)
fsfreeze -f "$BACK" || skip "cannot freeze"
touch "$MNT/new" 2>/dev/null &
waiter=$!
waiting() {
	[ "$(status_of 'x["requests"]["in_flight"]')" -ge 1 ]
}
wait_until 10 waiting
kill -9 "$waiter"
wait "$waiter" 2>/dev/null
wait_until 10 _gone "$waiter"
run timeout 30 "$CKPTFS" umount --timeout 1 "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "$MNT is unmounted here, but its daemon (pid $daemon) has not ended within 1 s: it waits for the backing"
! is_mounted || die "still mounted"
fsfreeze -u "$BACK"
wait_until 30 _gone "$daemon"
