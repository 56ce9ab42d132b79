#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount of a mount in use names who uses it, leaves it mounted and whole, and works once they are gone.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
daemon=$(daemon_pid)
echo data >"$MNT/file"
hold "$MNT/file"
expect_fail "$CKPTFS" umount "$MNT"
assert_eq "$RC" 1
assert_contains "$OUT" "$MNT is in use by holder (pid $HOLDER). It stays mounted and nothing is lost"
assert_contains "$OUT" "or use --force"
echo more >>"$MNT/file"
assert_eq "$(daemon_pid)" "$daemon" "the daemon"
quit "$HOLDER"

mkdir "$MNT/dir"
env -C "$MNT/dir" "$TEST_TMP/holder" -f /dev/null &
HOLDER=$!
in_dir() {
	[ "$(readlink "/proc/$HOLDER/cwd") $(cat "/proc/$HOLDER/comm")" = "$MNT/dir holder" ]
}
wait_until 10 in_dir
expect_fail "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "in use by holder (pid $HOLDER)."
quit "$HOLDER"

pids=()
for _ in {1..8}; do
	hold "$MNT/file"
	pids+=("$HOLDER")
done
expect_fail "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "and others"
for pid in "${pids[@]}"; do
	quit "$pid"
done
umount_ckptfs
assert_eq "$(cat "$BACK/file")" $'data\nmore'
