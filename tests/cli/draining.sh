#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that still saves after its mount has gone: fsck lets its files alone, and a mount that is made meanwhile has
# its own socket, also afterwards.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT" "$TEST_TMP/other"
mount_ckptfs -o flush_bw=2M
daemon=$(daemon_pid)
head -c 8000000 /dev/urandom >"$TEST_TMP/bytes"
cp "$TEST_TMP/bytes" "$MNT/x.pt"
expect_ok umount "$MNT"
! _gone "$daemon" || die "saved already"
for how in "" --dry-run --discard --adopt; do
	expect_fail "$CKPTFS" fsck ${how:+"$how"} "$BACK"
	assert_contains "$OUT" "is in use by a daemon that serves it elsewhere, or still saves to it"
done
mount_ckptfs "$TEST_TMP/other"
wait_until 30 _gone "$daemon"
expect_ok "$CKPTFS" status "$MNT"
umount_ckptfs
BACK=$TEST_TMP/back
expect_ok cmp "$TEST_TMP/bytes" "$BACK/x.pt"
expect_ok "$CKPTFS" fsck "$BACK"

# The other way round: nothing is mounted while fsck is at work, as which anybody counts who has the lock.
needs flock
expect_ok flock "$BACK" bash -c '! "$1" mount "$2" "$3"' - "$CKPTFS" "$BACK" "$MNT"
assert_contains "$OUT" "fsck\` is at work on $BACK"
