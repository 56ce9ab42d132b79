#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every user may ask for the status of every mount.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_fuse 1001
mount_ckptfs
mkdir -m 700 "$MNT/closed"
for path in "$MNT" "$MNT/closed/below"; do
	expect_ok as_user 1001 timeout 2 "$CKPTFS" status --json "$path"
	assert_eq "$(value 'x["mountpoint"]' "$OUT")" "$MNT"
	expect_ok as_user 1001 timeout 2 "$CKPTFS" status "$path"
	assert_contains "$OUT" "$BACK"
done
umount_ckptfs
