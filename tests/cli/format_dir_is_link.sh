#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A backing whose .ckptfs is a symbolic link is refused by init and mount, and what it leads to stays as it is.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir -p "$BACK" "$TEST_TMP/mnt" "$TEST_TMP/other"
mkdir -m 700 "$TEST_TMP/empty"
echo data >"$BACK/file"
expect_ok "$CKPTFS" init "$TEST_TMP/other"
rmdir "$TEST_TMP/other/.ckptfs/nodes"
chmod 700 "$TEST_TMP/other/.ckptfs"
before=$(listing "$TEST_TMP/other")
for target in "$TEST_TMP/other/.ckptfs" ../empty nowhere; do
	ln -sfn "$target" "$BACK/.ckptfs"
	refused 1 "$BACK/.ckptfs is a symbolic link" "$BACK" "$TEST_TMP/mnt"
	run "$CKPTFS" init "$BACK"
	assert_eq "$RC" 1 "$OUT"
	assert_contains "$OUT" "$BACK/.ckptfs is a symbolic link"
	assert_contains "$OUT" "remove the link, then run: ckptfs init $BACK"
done
assert_eq "$(listing "$TEST_TMP/other")" "$before" "the directory that the link led to"
assert_eq "$(stat -c %a "$TEST_TMP/empty") $(ls -A "$TEST_TMP/empty")" "700 " "the directory that the link led to"
rm "$BACK/.ckptfs"
expect_ok "$CKPTFS" init "$BACK"
mount_ckptfs
assert_eq "$(cat "$MNT/file")" data
umount_ckptfs
