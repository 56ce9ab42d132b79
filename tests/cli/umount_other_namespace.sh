#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# While another mount namespace holds a copy of the mount umount says so, by its process, and waits for that one to end.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
needs unshare
mount_ckptfs
daemon=$(daemon_pid)
cp "$(command -v tail)" "$TEST_TMP/holder"
unshare -m --propagation private "$TEST_TMP/holder" -f /dev/null &
holder=$!
elsewhere() {
	[ "$(cat "/proc/$holder/comm")" = holder ]
}
wait_until 10 elsewhere
timeout 60 "$CKPTFS" umount "$MNT" >"$TEST_TMP/told" 2>&1 &
umount=$!
wait_until 20 grep -q "waiting until" "$TEST_TMP/told"
assert_eq "$(cat "$TEST_TMP/told")" "ckptfs: $MNT is unmounted here; waiting until its daemon (pid $daemon) ends: \
another mount namespace holds a copy of the mount: that of holder (pid $holder)"
quit "$holder"
wait "$umount"
assert_eq $? 0 "exit status of umount"
_gone "$daemon" || die "the daemon lives"

mount_ckptfs
unshare -m --propagation private "$TEST_TMP/holder" -f /dev/null &
holder=$!
wait_until 10 elsewhere
expect_fail timeout 60 "$CKPTFS" umount --timeout 1 "$MNT"
assert_contains "$OUT" "has not ended within 1 s: another mount namespace holds a copy of the mount: that of holder (pid $holder)."
quit "$holder"
! is_mounted || die "still mounted"
