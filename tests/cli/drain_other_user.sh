#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A user who is not the mount's drains what is his own, and is told of nothing else.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_fuse 12345
mount_ckptfs -o quiet_s=3600
chmod 777 "$BACK" "$CKPTFS_RUN_DIR"
exec 9>"$MNT/root.pt"
expect_ok as_user 12345 "$CKPTFS" drain --timeout 0 "$MNT"
expect_fail "$CKPTFS" drain --timeout 0 "$MNT"
assert_contains "$OUT" "root.pt"
mkdir "$TEST_TMP/unit"
for file in __0_0.distcp .metadata; do
	echo x >"$TEST_TMP/unit/$file"
done
cp -r "$TEST_TMP/unit" "$MNT/step-1"
as_user 12345 cp -r "$TEST_TMP/unit" "$MNT/step-2"
expect_ok as_user 12345 "$CKPTFS" drain --timeout 60 "$MNT"
expect_ok "$CKPTFS" verify "$BACK/step-2"
[ ! -e "$BACK/step-1" ] || die "another user's was hurried"
expect_ok "$CKPTFS" wait --timeout 60 "$MNT/step-2"
exec 9>&-
umount_ckptfs
