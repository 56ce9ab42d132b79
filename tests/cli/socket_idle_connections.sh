#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A hundred connections to the control socket that say nothing keep nobody from asking and unmounting.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkfifo "$TEST_TMP/end"
python3 -c '
import socket, sys
held = []
for i in range(100):
	s = socket.socket(socket.AF_UNIX)
	s.connect(sys.argv[1])
	held.append(s)
open(sys.argv[2], "w").close()
open(sys.argv[3]).read()
' "$(socket)" "$TEST_TMP/connected" "$TEST_TMP/end" &
wait_until 10 test -e "$TEST_TMP/connected"
for _ in 1 2 3; do
	run timeout 2 "$CKPTFS" status "$MNT"
	assert_eq "$RC" 0 "$OUT"
done
run timeout 20 "$CKPTFS" umount "$MNT"
assert_eq "$RC" 0 "$OUT"
