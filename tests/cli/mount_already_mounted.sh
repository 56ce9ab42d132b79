#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount leaves a live mount alone, also one whose daemon is stopped, and names it.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
echo data >"$MNT/file"
daemon=$(daemon_pid)
mkdir "$TEST_TMP/other"
ln -s mnt "$TEST_TMP/link"
said="$MNT is a live ckptfs mount already (of $BACK, daemon pid $daemon)"
refused 1 "$said" "$BACK" "$MNT"
assert_contains "$OUT" "first run: ckptfs umount $MNT"
refused 1 "$said" "$TEST_TMP/other" "$MNT"
refused 1 "$said" "$BACK" "$TEST_TMP/link"
assert_eq "$(cat "$MNT/file")" data
[ ! -e "$TEST_TMP/other/.ckptfs" ] || die "the other backing was changed"

kill -STOP "$daemon"
run timeout 10 "$CKPTFS" mount "$BACK" "$MNT"
kill -CONT "$daemon"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "is a live ckptfs mount already"
umount_ckptfs
