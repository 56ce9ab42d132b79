#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses a backing inside a ckptfs mount whose daemon is stopped, without waiting for that daemon.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkdir -p "$MNT/a/b" "$TEST_TMP/other"
ln -s "$MNT/a/b" "$TEST_TMP/link"
daemon=$(daemon_pid)
kill -STOP "$daemon"
for backing in "$MNT" "$MNT/a/b" "$TEST_TMP/link" "$TEST_TMP/other/../mnt/a"; do
	run timeout 2 "$CKPTFS" mount "$backing" "$TEST_TMP/other"
	assert_eq "$RC" 1 "exit status for $backing: $OUT"
	assert_contains "$OUT" "lies inside the ckptfs mount $MNT"
done
run timeout 2 "$CKPTFS" init "$MNT/a"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "lies inside the ckptfs mount $MNT"
kill -CONT "$daemon"
umount_ckptfs
