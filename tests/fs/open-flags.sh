#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# O_DIRECT with any alignment, O_SYNC, O_DSYNC, O_APPEND set later by fcntl, O_NOATIME, O_TMPFILE, O_EXCL, O_NOFOLLOW,
# O_DIRECTORY, O_PATH: as on a plain directory, or better.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" <<'END'
import errno, fcntl, mmap, os, random, sys
os.chdir(sys.argv[1])
random.seed(11)
aligned = mmap.mmap(-1, 1 << 20)
# O_DIRECT: aligned, and odd in every way; against a copy in memory.
fd = os.open("direct", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
body = bytearray(300000)
os.ftruncate(fd, len(body))
for i in range(200):
	off = random.choice((0, 4096, 512, 1, random.randrange(250000)))
	size = random.choice((4096, 8192, 512, 1, random.randrange(1, 50000)))
	start = random.choice((0, 0, 13, 512))
	data = bytes([i % 255 + 1]) * size
	aligned[start:start + size] = data
	assert os.pwrite(fd, memoryview(aligned)[start:start + size], off) == size
	body[off:off + size] = data
	off = random.randrange(250000)
	into = memoryview(aligned)[start:start + 30000]
	assert os.preadv(fd, [into], off) == 30000 and into == body[off:off + 30000], i
assert open("direct", "rb").read() == bytes(body)
for flag in (os.O_SYNC, os.O_DSYNC, os.O_RSYNC):
	fd = os.open("sync", os.O_CREAT | os.O_WRONLY | flag)
	assert os.write(fd, b"s" * 10000) == 10000
	os.close(fd)
fd = os.open("append", os.O_CREAT | os.O_RDWR)
os.write(fd, b"0123456789")
fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
os.lseek(fd, 0, 0)
os.write(fd, b"end")
assert os.lseek(fd, 0, 1) == 13 and open("append").read() == "0123456789end"
fcntl.fcntl(fd, fcntl.F_SETFL, 0)
os.lseek(fd, 0, 0)
os.write(fd, b"START")
assert open("append").read() == "START56789end"
fd = os.open("append", os.O_WRONLY | os.O_APPEND)
assert os.pwrite(fd, b"!", 0) == 1 and open("append").read() == "START56789end!" # as Linux has it
def fails(want, *args, **kw):
	try:
		os.open(*args, **kw)
	except OSError as e:
		assert e.errno in want, (args, e)
	else:
		raise AssertionError(args)
fails((errno.EEXIST,), "append", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
fails((errno.EOPNOTSUPP,), ".", os.O_TMPFILE | os.O_WRONLY)
fails((errno.EISDIR,), ".", os.O_WRONLY)
fails((errno.ENOTDIR,), "append", os.O_DIRECTORY)
fails((errno.ENOENT,), "none", os.O_RDWR)
os.symlink("append", "link")
os.symlink("nowhere", "dangling")
fails((errno.ELOOP,), "link", os.O_NOFOLLOW | os.O_RDONLY)
fails((errno.EEXIST,), "dangling", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
os.close(os.open("dangling", os.O_CREAT | os.O_WRONLY))
assert os.path.exists("nowhere")
assert os.fstat(os.open("link", os.O_PATH | os.O_NOFOLLOW)).st_size == 6
fd = os.open("append", os.O_RDONLY | os.O_NOATIME)
assert os.read(fd, 5) == b"START"
fd = os.open("append", os.O_RDWR | os.O_TRUNC)
assert os.fstat(fd).st_size == 0
END
umount_ckptfs
