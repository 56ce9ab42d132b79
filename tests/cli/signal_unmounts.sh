#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# SIGTERM, SIGINT and SIGHUP unmount in good order; a daemon in the foreground then exits with 0.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
for signal in TERM INT HUP; do
	rm -f "$TEST_TMP/log" # the one of the round before also says what is waited for
	"$CKPTFS" mount -f -o host_cache_size=64M "$BACK" "$MNT" >"$TEST_TMP/log" 2>&1 &
	daemon=$!
	wait_until 10 grep -q "Ctrl-C unmounts" "$TEST_TMP/log"
	echo "$signal" >"$MNT/file"
	kill "-$signal" "$daemon"
	wait "$daemon"
	assert_eq $? 0 "exit status after SIG$signal: $(cat "$TEST_TMP/log")"
	! is_mounted || die "still mounted after SIG$signal"
	run_dir_is_empty || die "left in the run directory: $(ls "$CKPTFS_RUN_DIR")"
	assert_eq "$(cat "$BACK/file")" "$signal"

	mount_ckptfs
	daemon=$(daemon_pid)
	kill "-$signal" "$daemon"
	wait_until 10 _gone "$daemon"
	! is_mounted || die "still mounted after SIG$signal"
	run_dir_is_empty || die "left in the run directory: $(ls "$CKPTFS_RUN_DIR")"
done
