#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ways to open a checkpoint for changes: exclusively, appending, for reading and writing. A change begins with a copy,
# and the old content stays whole until the close; but a file above cow_max is changed in place, and loses its digest.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 256 "$TEST_TMP/disk"
mount_ckptfs -o cow_max=4M "$TEST_TMP/disk"
program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
old = data(1, 2 * MB + 77)

# O_EXCL sees what is only in the cache.
fd = os.open(x, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
fails(errno.EEXIST, os.open, x, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
fails(errno.EEXIST, os.mkdir, x)
fails(errno.EEXIST, os.symlink, "a", x)
fails(errno.EEXIST, os.mkfifo, x)
os.close(fd)
fails(errno.EEXIST, os.open, x, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
published()
assert read(on_backing) == b""
verify(on_backing)

# r+: a copy; the old one is whole until the last of it is closed.
save(x, old)
published()
number = inode(x)
with open(x, "r+b") as f, open(x, "rb") as reader:
	copy = os.fstat(f.fileno()).st_ino
	assert copy != number and os.fstat(reader.fileno()).st_ino == copy
	want = bytearray(old)
	for nr in range(50):
		at, part = random.Random(nr).randrange(len(old)), data(nr, 3000)
		f.seek(at)
		f.write(part)
		f.flush()
		want[at:at + len(part)] = part
		assert read(x) == want
		assert os.pread(reader.fileno(), len(want), 0) == want
		assert read(on_backing) == old and inode(on_backing) == number
	f.truncate(MB + 5)
	del want[MB + 5:]
	assert read(x) == want and read(on_backing) == old
published()
assert read(on_backing) == want and inode(on_backing) == copy == inode(x)
verify(on_backing)

# w+, and r+ by two at a time, who work on one copy.
with open(x, "w+b") as f:
	f.write(old)
	f.seek(5)
	assert f.read() == old[5:]
published()
with open(x, "r+b") as a, open(x, "r+b") as b:
	assert os.fstat(a.fileno()).st_ino == os.fstat(b.fileno()).st_ino
	os.pwrite(a.fileno(), b"A" * 10, 0)
	os.pwrite(b.fileno(), b"B" * 10, 20)
	a.close()
	assert read(on_backing) == old
want = b"A" * 10 + old[10:20] + b"B" * 10 + old[30:]
published()
assert read(on_backing) == want == read(x)
verify(on_backing)

# Opened and closed, r+, without a change: nothing happens.
number, st = inode(x), os.stat(on_backing)
open(x, "r+b").close()
published()
assert inode(x) == number and os.stat(on_backing).st_mtime_ns == st.st_mtime_ns
verify(on_backing)

# Appending to a new one, an unpublished one, a published one.
want = b""
for nr in range(20):
	part = data(nr, 100 + nr * 20000)
	with open(x if nr else mnt + "/x.pt", "ab") as f:
		if nr == 0:
			os.truncate(x, 0)
		f.write(part)
		f.flush()
		want += part
		assert read(x) == want
	if nr % 3 == 0:
		published()
		assert read(on_backing) == want
os.unlink(x)
with open(x, "ab") as f:
	for nr in range(30):
		f.write(data(nr, 40000))
published()
assert read(on_backing) == b"".join(data(nr, 40000) for nr in range(30)) == read(x)
save(x, old)
with open(x, "ab") as f: # at once after the save
	f.write(b"end")
assert read(x) == old + b"end"
published()
assert read(on_backing) == old + b"end"
save(x, old)
fd = os.open(x, os.O_WRONLY)
fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
os.write(fd, b"one")
os.pwrite(fd, b"two", 0) # appends, on Linux
os.close(fd)
assert read(x) == old + b"onetwo"

# By its name alone.
os.truncate(x, MB)
assert read(x) == old[:MB]
os.truncate(x, 3 * MB)
want = old[:MB] + bytes(2 * MB)
assert read(x) == want and os.stat(x).st_size == 3 * MB
published()
assert read(on_backing) == want
for nr in range(30): # while it is being published
	save(x, data(nr, MB + nr))
	os.truncate(x, 5000)
	assert read(x) == data(nr, MB + nr)[:5000], nr
	published()
	assert read(on_backing) == data(nr, MB + nr)[:5000], nr

# Above cow_max: in place, and no digest vouches for it, until it is saved anew.
big = bytearray(data(9, 5 * MB))
save(x, bytes(big))
published()
verify(on_backing)
number = inode(x)
with open(x, "r+b") as f:
	assert inode(x) == number
	f.seek(1000)
	f.write(b"changed")
	f.flush()
	big[1000:1007] = b"changed"
	assert read(x) == big
	assert "user.ckptfs.xxh3" not in os.listxattr(on_backing)
assert inode(x) == inode(on_backing) == number and read(on_backing) == big
verify(on_backing, 1)
with open(x, "r+b") as f: # larger pieces go through the cache
	f.seek(MB // 2)
	f.write(b"Z" * 2 * MB)
	big[MB // 2:MB // 2 + 2 * MB] = b"Z" * 2 * MB
	f.flush()
	assert read(x) == big
assert read(on_backing) == big == read(x)
save(x, bytes(big[::-1])) # from the start: a new one, whatever its size
published()
assert inode(x) != number and read(on_backing) == big[::-1]
verify(on_backing)

# O_DIRECT of the caller.
memory = mmap.mmap(-1, MB)
memory[:] = data(4, MB)
fd = os.open(x, os.O_TRUNC | os.O_RDWR | os.O_DIRECT)
for nr in range(3):
	assert os.pwrite(fd, memory, nr * MB) == MB
back_again = mmap.mmap(-1, MB)
assert os.preadv(fd, [back_again], MB) == MB and back_again[:] == memory[:]
os.close(fd)
published()
assert read(on_backing) == memory[:] * 3 == read(x)
verify(on_backing)
assert failures() == [], failures()
END
umount_ckptfs
