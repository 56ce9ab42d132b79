#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# status of a mount whose daemon was killed says so, what is safe, and how to clear it.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkdir -p "$MNT/a/b"
kill9_and_reaped "$(daemon_pid)" 10
for path in "$MNT" "$MNT/a/b"; do
	run timeout 2 "$CKPTFS" status "$path"
	assert_eq "$RC" 1 "$OUT"
	assert_contains "$OUT" "the daemon of $MNT is not running. What was published, or fsynced and closed, is on the backing"
	assert_contains "$OUT" "Clear the mount point with: ckptfs umount $MNT"
done
json=$(timeout 2 "$CKPTFS" status --json "$MNT" 2>/dev/null)
assert_eq $? 1 "exit status with --json"
assert_eq "$(value 'x["state"], x["mountpoint"], x["backing"]' "$json")" "('dead', '$MNT', '$BACK')"
assert_contains "$(value 'x["message"]' "$json")" "is not running"
umount_ckptfs
