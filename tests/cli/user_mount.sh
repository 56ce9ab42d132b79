#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An ordinary user mounts with fusermount3, uses it, asks for its status, and unmounts.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_mount 1001
assert_eq "$OUT" "" "output of mount"
expect_ok as_user 1001 sh -c "echo data >'$MNT/file' && mkdir '$MNT/dir' && mv '$MNT/file' '$MNT/dir/file'"
assert_eq "$(cat "$BACK/dir/file")" data
assert_eq "$(stat -c %u:%g "$BACK/dir/file")" 1001:1001 "owner"
expect_ok as_user 1001 timeout 2 "$CKPTFS" status "$MNT/dir"
assert_contains "$OUT" "$BACK"
# Root is told too, though it may not enter.
assert_eq "$(status_of 'x["features"]["act_as_caller"]')" no
daemon=$(daemon_pid)
assert_eq "$(stat -c %u "/proc/$daemon")" 1001 "the daemon's user"
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"
_gone "$daemon" || die "umount returned before the daemon had ended"
assert_eq "$(ckptfs_mounts)" "" "mounts left"
run_dir_is_empty || die "left in the run directory: $(ls "$CKPTFS_RUN_DIR")"

expect_ok as_user 1001 "$CKPTFS" mount -o ro,host_cache_size=64M "$BACK" "$MNT"
expect_fail as_user 1001 touch "$MNT/new"
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"

# A killed daemon.
expect_ok as_user 1001 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
kill9_and_reaped "$(daemon_pid)" 10
expect_ok as_user 1001 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
assert_contains "$OUT" "held the remains of a dead ckptfs daemon; cleared them"
expect_ok as_user 1001 cat "$MNT/dir/file"
kill9_and_reaped "$(daemon_pid)" 10
expect_ok as_user 1001 "$CKPTFS" umount "$MNT"
assert_eq "$(ckptfs_mounts)" "" "mounts left"

# Stopped, and forced.
expect_ok as_user 1001 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
daemon=$(daemon_pid)
kill -STOP "$daemon"
expect_ok as_user 1001 "$CKPTFS" umount --force "$MNT"
assert_eq "$(ckptfs_mounts)" "" "mounts left"
kill -CONT "$daemon"
wait_until 10 _gone "$daemon"
