#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# copy_file_range, sendfile and splice: large copies within the mount, into it, out of it, and between parts of one
# file, are right.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" "$TEST_TMP" <<'END'
import errno, os, socket, sys
mnt, out = sys.argv[1:]
SIZE = (200 << 20) + 12345
block = os.urandom(1 << 20)
body = bytearray((block * 201)[:SIZE])
for i in range(0, SIZE, 1 << 20):
	body[i:i + 8] = i.to_bytes(8, "little")[:max(0, min(8, SIZE - i))]
body = bytes(body)
for top in (mnt, out):
	with open(top + "/source", "wb") as f:
		f.write(body)
def copied(how, source, target):
	src = os.open(source, os.O_RDONLY)
	dst = os.open(target, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
	done = 0
	while done < SIZE:
		n = how(src, dst, done)
		assert n > 0, (how, n, done)
		done += n
	assert how(src, dst, done) == 0
	os.close(dst)
	assert open(target, "rb").read() == body, (how, source, target)
	os.unlink(target)
cfr = lambda s, d, done: os.copy_file_range(s, d, SIZE, done, done)
send = lambda s, d, done: os.sendfile(d, s, done, SIZE)
copied(cfr, mnt + "/source", mnt + "/target")
copied(send, mnt + "/source", mnt + "/target")
copied(send, out + "/source", mnt + "/target")
copied(send, mnt + "/source", out + "/target")
for s, d in ((out, mnt), (mnt, out)):
	try:
		copied(cfr, s + "/source", d + "/target")
	except OSError as e:
		assert e.errno == errno.EXDEV, e
# Within one file.
fd = os.open(mnt + "/source", os.O_RDWR)
assert os.copy_file_range(fd, fd, 1 << 20, 0, 100 << 20) == 1 << 20
assert os.pread(fd, 1 << 20, 100 << 20) == body[:1 << 20]
try:
	os.copy_file_range(fd, fd, 8192, 0, 4096)
	raise AssertionError("overlapping")
except OSError as e:
	assert e.errno == errno.EINVAL, e
# Through a pipe, and out to a socket.
r, w = os.pipe()
dst = os.open(mnt + "/piped", os.O_CREAT | os.O_RDWR)
for i in range(50):
	assert os.splice(fd, w, 65536, offset_src=i * 65536) == 65536
	assert os.splice(r, dst, 65536) == 65536
assert open(mnt + "/piped", "rb").read() == body[:50 * 65536]
a, b = socket.socketpair()
assert os.sendfile(a.fileno(), fd, 5000, 50000) == 50000
assert b.recv(50000, socket.MSG_WAITALL) == body[5000:55000]
END
umount_ckptfs
