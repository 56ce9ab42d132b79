#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# FIFOs and unix sockets work in the mount between processes.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok timeout 20 "$PYTHON" - "$MNT" <<'END'
import os, socket, stat, sys
os.chdir(sys.argv[1])
os.mkfifo("fifo", 0o640)
if not os.fork():
	with open("fifo", "wb") as f:
		f.write(b"through the fifo")
	os._exit(0)
with open("fifo", "rb") as f:
	assert f.read() == b"through the fifo"
os.wait()
assert stat.S_ISFIFO(os.stat("fifo").st_mode) and os.stat("fifo").st_mode & 0o777 == 0o640
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
server.listen()
if not os.fork():
	client = socket.socket(socket.AF_UNIX)
	client.connect("socket")
	client.sendall(b"through the socket")
	os._exit(0)
peer, _ = server.accept()
assert peer.recv(100) == b"through the socket"
os.wait()
assert stat.S_ISSOCK(os.stat("socket").st_mode)
peer.close()
server.close()
os.unlink("socket")
os.unlink("fifo")
END
umount_ckptfs
