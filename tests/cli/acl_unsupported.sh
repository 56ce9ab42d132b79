#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Users can read what they may where the backing has no ACLs, and the control directory, which has none either.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_fuse 1001
mkdir -m 1777 "$TEST_TMP/back"
CKPTFS_FEATURES_OFF=xattr mount_ckptfs
mkdir -m 755 "$MNT/dir"
(umask 022 && echo data >"$MNT/dir/file")
expect_ok as_user 1001 cat "$MNT/dir/file"
assert_eq "$OUT" data
expect_ok as_user 1001 ls "$MNT/.ckptfs"
expect_ok as_user 1001 cat "$MNT/.ckptfs/metrics"
umount_ckptfs
mount_ckptfs
expect_ok as_user 1001 cat "$MNT/.ckptfs/status.json" "$MNT/dir/file"
umount_ckptfs
