#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ckptfs commit: ends a checkpoint whose rule sees no end, or gives it up; says why not.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
expect_fail "$CKPTFS" commit "$MNT/none"
assert_contains "$OUT" "is no checkpoint that is being written"
mkdir "$MNT/step-1"
expect_fail "$CKPTFS" commit "$MNT/step-1"
assert_contains "$OUT" "has no files yet"
echo one >"$MNT/step-1/__0_0.distcp"
if [ "$(id -u)" = 0 ]; then
	expect_fail setpriv --reuid 1001 --regid 1001 --clear-groups env CKPTFS_RUN_DIR="$CKPTFS_RUN_DIR" \
		"$CKPTFS" commit "$MNT/step-1"
	assert_contains "$OUT" "only that user and root may commit or abandon it"
fi
expect_ok "$CKPTFS" commit "$MNT/step-1"
expect_ok "$CKPTFS" wait --timeout 30 "$MNT/step-1"
expect_ok "$CKPTFS" verify "$BACK/step-1"
assert_contains "$(cat "$BACK/step-1/.ckptfs-commit.json")" '"done": "asked"'

mkdir "$MNT/step-2"
echo two >"$MNT/step-2/__0_0.distcp"
expect_ok "$CKPTFS" commit --abandon "$MNT/step-2"
[ ! -e "$MNT/step-2" ] || die "it is still seen"
expect_ok "$CKPTFS" why "$MNT/step-2"
assert_contains "$OUT" "was abandoned by uid"

# A writer that ends badly, with no file open.
expect_fail bash -c 'mkdir "$1/step-3"; echo three >"$1/step-3/__0_0.distcp"; exit 3' - "$MNT"
wait_until 20 status_is "s['failures'] >= 2"
expect_ok "$CKPTFS" why "$MNT/step-3"
assert_contains "$OUT" "ended with exit status 3 before its end was seen"

expect_fail "$CKPTFS" commit
expect_fail "$CKPTFS" commit --what "$MNT"
umount_ckptfs
