#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# While the backing hangs status answers, and names the call that waits, its file and its process.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
loop_fs ext4 64 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
mkdir "$MNT/dir"
fsfreeze -f "$BACK" || skip "cannot freeze"
mkdir "$MNT/dir/new" &
waiter=$!
waiting() {
	"$CKPTFS" status "$MNT" | grep "waiting  *MKDIR of 'dir' by pid $waiter for"
}
wait_until 20 waiting
expect_ok timeout 2 "$CKPTFS" status --json "$MNT"
assert_eq "$(value '[(w["op"], w["path"], w["pid"]) for w in x["requests"]["waiting"]]' "$OUT")" "[('MKDIR', 'dir', $waiter)]"
fsfreeze -u "$BACK"
wait "$waiter" || die "mkdir failed"
umount_ckptfs
