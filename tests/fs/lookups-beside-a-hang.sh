#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A lookup that waits for the backing holds up no other in its directory, nor a listing.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

mkdir -p "$TEST_TMP/dir" "$TEST_TMP/back/run/hangs"
echo 1 >"$TEST_TMP/back/run/there"
bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/back/run/hangs"
mount_ckptfs "$TEST_TMP/back"
expect_ok stat "$MNT/run"
expect_ok kill -STOP "$SERVER"
stat "$MNT/run/hangs" >/dev/null 2>&1 &
waiter=$!
wait_until 10 waits_in 1
expect_ok timeout 20 cat "$MNT/run/there"
assert_eq "$OUT" 1
expect_ok timeout 20 test ! -e "$MNT/run/missing"
expect_ok timeout 20 ls "$MNT/run"
assert_contains "$OUT" there
assert_eq "$(status_of "s['requests']['in_flight']")" 1 "requests that wait"
expect_ok kill -CONT "$SERVER"
wait_until 10 _gone "$waiter"
umount_ckptfs
