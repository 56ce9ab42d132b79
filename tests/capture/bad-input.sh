#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every ioctl with what is wrong, in each field: an error, and nothing else happens. What is reported twice, or was never
# granted, is nothing.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
program <<'END'
from capture import *

MAX = (1 << 64) - 1
for abi in 0, 2, 0xffffffff:
	fd = os.open(CONTROL + "/ctl", os.O_RDWR)
	fails(errno.EPROTO, call, fd, HELLO, struct.pack("=I", abi))
for wrong in (1, 0, 0, -1, -1, 0), (0, -2, 0, -1, 0, 0), (0, 0, -1, -1, 0, 0), (0, 0, 0, -2, 0, 0), (0, 0, 0, 0, -1, 0):
	fails(errno.EINVAL, call, fd, HELLO, struct.pack("=IIiiiiQ", ABI, *wrong))
for number in HELLO + 100, HELLO - (8 << 16), 0x5401:
	fails(errno.ENOTTY, call, fd, number, b"")
top = os.open(mnt, os.O_RDONLY)
status_file = os.open(CONTROL + "/status.json", os.O_RDONLY)
for other in top, status_file:
	fails(errno.ENOTTY, call, other, HELLO, struct.pack("=I", ABI))
fails(errno.EBADF, os.write, fd, b"x")
assert os.read(fd, 10) == b""

s, t = Session(arena=4 * MB), Session(arena=2 * MB)
s.register({1: MB, 2: 10})
s.register({1: MB}) # again
fails(errno.EEXIST, s.register, {1: MB + 1})
fails(errno.EEXIST, s.register, {9: 5, 1: MB + 1}) # all or none
s.register({9: 6})
fails(errno.EINVAL, s.register, {0: 5})
fails(errno.EINVAL, s.register, {3: 1 << 63})
layout = struct.pack("=QQ192x16sIIIIII", 3, 5, b"U8", 0, 0, HOST, 0, 1, 0)
for nr, size, more in (66, 100, b""), (1, 10, b""), (1, 249, b""), (1, 250, b"ab"), (1, 16200, b"a"), (0xffffffff, 8, b"a"), (1, 249, b"\0"):
	fails(errno.EINVAL, call, s.ctl, REGISTER, struct.pack("=QII", s.id, nr, size) + layout + more)
for at, value in (216 + 8, 9), (216 + 4 + 8, 3), (216 + 8 + 8, 4), (216 + 12 + 8, 1), (216 + 20 + 8, 1):
	bad = bytearray(layout)
	bad[at:at + 4] = struct.pack("=I", value)
	fails(errno.EINVAL, call, s.ctl, REGISTER, struct.pack("=QII", s.id, 1, 249) + bytes(bad) + b"n")
s.register({8: 5}, prefix="n" * 1023)
fails(errno.EINVAL, s.register, {10: 5}, HOST, "n" * 1023)
fails(errno.EBADF, s.unregister, 2, 77)
fails(errno.EINVAL, call, s.ctl, UNREGISTER, struct.pack("=QII", s.id, 1025, 0))

u = Session(arena=2 * MB)
for first in range(1, 65537, 32):
	u.register({i: 5 for i in range(first, first + 32)})
fails(errno.ENOSPC, u.register, {65537: 5})
u.unregister(7)
u.register({65537: 5})
u.bye()

# Of another session, of none, of another user.
for number in REGISTER, UNREGISTER, NEXT, FAIL, BARRIER, STATS, BYE:
	fails(errno.ENOENT, call, s.ctl, number, struct.pack("=Q", s.id ^ 1))
if os.getuid() == 0:
	pid = os.fork()
	if not pid:
		os.setuid(12345)
		for number in REGISTER, NEXT, BYE:
			fails(errno.ENOENT, call, s.ctl, number, struct.pack("=Q", s.id))
		os._exit(0)
	assert os.waitpid(pid, 0)[1] == 0

with open(mnt + "/x.pt", "wb", 0) as f, open(mnt + "/y.pt", "wb", 0) as y:
	f.write(b"0123456789")
	for wrong in (1, 0, 1, MB), (1, 0, MB + 1, 0), (1, 0, MAX, 1), (1, 0, 0, MAX), (1, 1 << 63, 0, 1), (1, (1 << 63) - 1, 0, 1), (1, MAX, 0, 0):
		fails(errno.EINVAL, s.write, f, wrong + (b"",))
	fails(errno.EBADF, s.write, f, (77, 0, 0, 1, b""))
	fails(errno.EBADF, t.write, f, (1, 0, 0, 1, b"")) # that of the other session
	fails(errno.EINVAL, s.write, f)
	fails(errno.EINVAL, s.write, f, (1, 0, 0, 10, b""), (2, 9, 0, 10, b"")) # both at 9
	fails(errno.EINVAL, call, f, WRITE, struct.pack("=QII", s.id, 401, 0))
	fails(errno.EINVAL, call, f, WRITE, struct.pack("=QIIQQQQQ", s.id, 1, 0, 2, 1, 0, 0, 1)) # a number left out
	fails(errno.ENOTTY, call, f, NEXT, struct.pack("=Q", s.id))
	with open(mnt + "/x.pt", "rb", 0) as r:
		fails(errno.EBADF, s.write, r, (1, 0, 0, 10, b""))
	assert os.fstat(f.fileno()).st_size == 10 and s.stats()["captures"] == 0

	tensor = data(1, MB)
	s.write(f, (1, 10, 0, MB, tensor))
	for nr, more in (401, 0), (0, 1):
		fails(errno.EINVAL, call, s.ctl, NEXT, struct.pack("=QII", s.id, nr, more))
	grants = s.next((0, 1, 5, MAX))
	assert len(grants) == 2 and s.stats()["granted"] == MB, grants
	fails(errno.EBADF, s.fail, 2, 5, "")
	fails(errno.EINVAL, s.fail, 1, 0, "")
	fails(errno.EINVAL, s.fail, 1, -5, "")
	fails(errno.EINVAL, s.fail, 1, 5, "x" * 512)
	s.copy(grants)
	first, second = grants[0][0], grants[1][0]
	s.next((second, second, first + 1000, second))
	assert s.stats()["pending"] == 1
	s.unregister(1) # it is captured all the same
	fails(errno.EBADF, s.write, f, (1, 0, 0, 1, b""))
	s.next((first,))
	wait(lambda: s.stats()["pending"] == 0)
	s.next((first, second))
	fails(errno.ENOTTY, call, y, HELLO, struct.pack("=I", ABI))
	# Sealed: nobody can make the daemon read where nothing is.
	fails(errno.EPERM, os.ftruncate, s.fd, 0)
	fails(errno.EPERM, os.ftruncate, s.fd, 64 * MB)
	# Whose pages are punched out spoils what is his, and is not flushed.
	f.close()
	wait(lambda: os.path.exists(back + "/x.pt"))
	s.register({5: 2 * MB})
	s.write(y, (5, 0, 0, 2 * MB, data(5, 2 * MB)))
	done = s.copy(s.next())
	subprocess.run(["fallocate", "-p", "-o", "0", "-l", str(4 * MB), "/proc/%d/fd/%d" % (os.getpid(), s.fd)], check=True)
	s.next(done)
	wait(lambda: s.stats()["pending"] == 0)
published()
s.memory[:] = b"\xff" * len(s.memory) # nobody reads that any more
for top in back, mnt:
	assert read(top + "/x.pt") == b"0123456789" + tensor
assert read(back + "/y.pt") == bytes(2 * MB)
assert t.stats()["captures"] == 0 and t.stats()["free"] == 2 * MB
assert failures() == [], failures()
END
umount_ckptfs
