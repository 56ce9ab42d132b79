#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Whatever is written to the control socket, the daemon lives, refuses what it does not know, and answers others.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
daemon=$(daemon_pid)

# send BYTES: a Python expression; prints the answer.
send() {
	timeout 10 python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try:
	s.sendall(eval(sys.argv[2]))
	s.settimeout(5)
	print(s.recv(1 << 20).decode())
except OSError as e:
	print(type(e).__name__)
' "$(socket)" "$1" || die "no answer to $1"
}

assert_contains "$(send 'b"{\"verb\":\"status\"}\n"')" '"state":"live"'
assert_contains "$(send 'b"{\"verb\":\"explode\"}\n"')" "request refused: this daemon does not know that verb"
for bytes in 'b"\n"' 'b"garbage\n"' 'b"[1]\n"' 'b"{}\n"' 'b"{\"verb\":7}\n"' 'b"{\"verb\":null}\n"' 'b"\0\0\0\n"' \
	'b"{" * 4000 + b"\n"' 'os.urandom(1000).replace(b"\n", b"") + b"\n"' 'b"\xff" * 4000 + b"\n"'; do
	assert_contains "$(send "$bytes")" "request refused: not one line with a JSON object and a verb" "$bytes"
done
for bytes in 'b"x" * 1000000' 'b"x" * 100000 + b"\n"' 'os.urandom(1 << 20)' 'b"{\"verb\":\"status\"}"' 'b""'; do
	send "$bytes" >/dev/null
	expect_ok timeout 2 "$CKPTFS" status "$MNT"
done
# Who goes away without listening.
timeout 10 python3 -c '
import socket, sys
for i in range(200):
	s = socket.socket(socket.AF_UNIX)
	s.connect(sys.argv[1])
	s.send(b"{\"verb\":\"status\"}\n")
	s.close()
' "$(socket)" || die "cannot send"
answers() {
	timeout 2 "$CKPTFS" status "$MNT"
}
wait_until 10 answers
assert_eq "$(daemon_pid)" "$daemon" "the daemon"
umount_ckptfs
