#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Verbs say so when what answers at the socket is not understood, and believe nobody but the owner of the mount.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

user_fuse 1001
mount_ckptfs
socket=$(socket)
kill9_and_reaped "$(daemon_pid)" 10

# serve BYTES: in place of the daemon, as root, answer whoever asks with these bytes. (A Python expression.)
serve() {
	rm -f "$socket"
	[ -z "${server-}" ] || quit "$server"
	python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
s.listen(8)
if len(sys.argv) > 3:
	os.setuid(int(sys.argv[3]))
	s.listen(8)
asked = 0
while True:
	c = s.accept()[0]
	asked += 1
	c.recv(4096)
	try:
		c.sendall(eval(sys.argv[2]))
	except OSError:
		pass
	c.close()
' "$socket" "$@" &
	server=$!
	wait_until 10 listens
}

listens() {
	python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$socket"
}

for bytes in 'b"garbage\n"' 'b"[]\n"' 'b"x" * (5 << 20)' 'b"\xff\xfe\n"'; do
	serve "$bytes"
	for verb in status umount; do
		run timeout 5 "$CKPTFS" "$verb" "$MNT"
		assert_eq "$RC" 1 "$verb: $OUT"
		assert_contains "$OUT" "the daemon of $MNT gave an answer that this command cannot read"
		assert_contains "$OUT" "Is it another version?"
	done
done
# Fields that a newer or older daemon lacks or has otherwise.
serve 'b"{\"version\": 7, \"bytes\": [], \"requests\": null, \"features\": \"x\", \"failures\": {}}\n"'
expect_ok timeout 2 "$CKPTFS" status "$MNT"
# Nothing, and the end: once or twice that is no sign of death.
serve 'b"" if asked < 4 else b"{\"version\": 7}\n"'
expect_ok timeout 2 "$CKPTFS" status "$MNT"
serve 'b""'
run timeout 4 "$CKPTFS" status "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "does not answer"
# Another user.
serve 'b"{\"state\": \"live\"}\n"' 1001
run timeout 2 "$CKPTFS" status "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "is not running"
quit "$server"
rm -f "$socket"
umount_ckptfs
