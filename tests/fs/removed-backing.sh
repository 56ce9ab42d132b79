#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The backing directory is removed under the mount: calls fail as in a removed directory, nothing hangs, the daemon
# answers and unmounts.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
mkdir "$MNT/sub"
echo content >"$MNT/sub/file"
exec 5<"$MNT/sub/file"
rm -rf "$BACK"
assert_eq "$(cat <&5)" content "an open file"
exec 5<&-
expect_ok ls -A "$MNT"
assert_eq "$OUT" "" "listing"
expect_fail stat "$MNT/sub/file"
expect_fail touch "$MNT/new"
assert_contains "$OUT" "No such file"
expect_fail mkdir "$MNT/new"
expect_ok stat "$MNT"
expect_ok timeout 2 "$CKPTFS" status "$MNT"
umount_ckptfs
