#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount says so when its daemon is killed while it mounts.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_setup 1001
[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to replace fusermount3 in"
mkfifo -m 666 "$TEST_TMP/fifo"
# shellcheck disable=SC2016 # for the inner shell
printf '#!/bin/sh\necho "$PPID" >"%s/hangs"\nread -r _ <"%s"\nexit 1\n' "$CKPTFS_RUN_DIR" "$TEST_TMP/fifo" >"$TEST_TMP/hanging"
chmod 755 "$TEST_TMP/hanging"
mount --bind "$TEST_TMP/hanging" "$(command -v fusermount3)" || skip "cannot replace fusermount3"
as_user 1001 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT" >"$TEST_TMP/said" 2>&1 &
mount=$!
wait_until 20 test -s "$CKPTFS_RUN_DIR/hangs"
kill -9 "$(cat "$CKPTFS_RUN_DIR/hangs")"
wait "$mount"
assert_eq $? 1 "exit status"
assert_contains "$(cat "$TEST_TMP/said")" "the daemon ended while mounting $MNT"
assert_contains "$(cat "$TEST_TMP/said")" "run ckptfs mount -f to watch it"
assert_eq "$(ckptfs_mounts)" "" "mounts"
