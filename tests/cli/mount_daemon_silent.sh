#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount gives up on a daemon that does not come to answer, says which, and leaves no mount.
# timeout: 120
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_setup 1001
[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to replace fusermount3 in"
# A fusermount3 that hangs until somebody writes into the FIFO; libfuse tries it twice.
mkfifo -m 666 "$TEST_TMP/fifo"
printf '#!/bin/sh\n[ -e "%s" ] || read -r _ <"%s"\nexit 1\n' "$TEST_TMP/released" "$TEST_TMP/fifo" >"$TEST_TMP/hanging"
chmod 755 "$TEST_TMP/hanging"
mount --bind "$TEST_TMP/hanging" "$(command -v fusermount3)" || skip "cannot replace fusermount3"
run as_user 1001 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
assert_eq "$RC" 1 "$OUT"
daemon=$(daemons)
assert_contains "$OUT" "the daemon (pid $daemon) has not answered at $MNT within 30 s; it was told to stop"
assert_eq "$(ckptfs_mounts)" "" "mounts"
touch "$TEST_TMP/released"
echo >"$TEST_TMP/fifo"
wait_until 10 no_daemons_but
assert_eq "$(ckptfs_mounts)" "" "mounts after the end of the daemon"
