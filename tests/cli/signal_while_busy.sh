#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# SIGTERM while files are open detaches the mount; they can be used until they are closed, then the daemon ends.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
"$CKPTFS" mount -f -o host_cache_size=64M "$BACK" "$MNT" 2>"$TEST_TMP/log" &
daemon=$!
wait_until 10 "$CKPTFS" status "$MNT"
echo data >"$MNT/file"
hold "$MNT/file"
exec 9>>"$MNT/file"
kill -TERM "$daemon"
wait_until 10 grep -q "detached it; the daemon ends when the last open file is closed" "$TEST_TMP/log"
assert_contains "$(cat "$TEST_TMP/log")" "holder (pid $HOLDER)"
! is_mounted || die "still mounted"
[ ! -e "$MNT/file" ] || die "still mounted"
! _gone "$daemon" || die "the daemon has ended while a file is open"
echo more >&9
assert_eq "$(cat "$BACK/file")" $'data\nmore'
quit "$HOLDER"
echo last >&9
exec 9>&-
wait "$daemon"
assert_eq $? 0 "exit status: $(cat "$TEST_TMP/log")"
assert_eq "$(cat "$BACK/file")" $'data\nmore\nlast'
run_dir_is_empty || die "left in the run directory: $(ls "$CKPTFS_RUN_DIR")"

# The mount point is free meanwhile: a new mount can be made at once.
mount_ckptfs
daemon=$(daemon_pid)
exec 9>>"$MNT/file"
kill -TERM "$daemon"
wait_until 10 not is_mounted
mount_ckptfs
echo new >"$MNT/other"
echo old >&9
exec 9>&-
wait_until 10 _gone "$daemon"
assert_eq "$(cat "$MNT/file" "$MNT/other")" $'data\nmore\nlast\nold\nnew'
umount_ckptfs
