#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program with a session of the client library keeps its mount busy: umount says so at once, and which program it is.

. "${SRC:?}/tests/cli/verbs.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
needs python3
mount_ckptfs
mkfifo "$TEST_TMP/end"
exec 4<>"$TEST_TMP/end"
MNT=$MNT timeout 100 python3 -c 'import os, sys, ckptfs
session = ckptfs.Session(os.environ["MNT"])
print("open", flush=True)
sys.stdin.readline()' <"$TEST_TMP/end" >"$TEST_TMP/told" &
wait_until 30 grep -q open "$TEST_TMP/told"
expect_fail timeout 30 "$CKPTFS" umount --timeout 60 "$MNT"
assert_contains "$OUT" "$MNT is in use by python3 (pid "
echo >&4
wait $!
umount_ckptfs
