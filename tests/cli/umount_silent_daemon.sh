#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount of a mount whose daemon is stopped tells of it within two seconds; --force cuts those who wait loose.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
echo data >"$MNT/file"
daemon=$(daemon_pid)
kill -STOP "$daemon"
cat "$MNT/new" >/dev/null 2>&1 & # waits
waiter=$!
run timeout 2 "$CKPTFS" umount "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "the daemon of $MNT (pid $daemon) does not answer"
assert_contains "$OUT" "ckptfs umount --force $MNT"
is_mounted || die "not mounted any more"
run timeout 5 "$CKPTFS" umount --force "$MNT"
assert_eq "$RC" 0 "$OUT"
! is_mounted || die "still mounted"
wait_until 10 _gone "$waiter"
kill -CONT "$daemon"
wait_until 10 _gone "$daemon"
assert_eq "$(cat "$BACK/file")" data
