#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Any sequence of changes to a checkpoint and to an ordinary file makes of it, in the mount and on the backing, what it
# makes of a plain file; with the smallest cache there may be and with one that holds all, before it is flushed, while,
# and after.
#
# timeout: 90
# long: 90
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 512 "$TEST_TMP/disk"

# changes SEED OPTIONS
changes() {
	mount_ckptfs -o "$2" "$TEST_TMP/disk"
	mkdir -p "$TEST_TMP/plain"
	program "$1" "$TEST_TMP/plain" "${CKPTFS_TEST_ROUNDS-16}" <<'END'
from units import *

seed, plain = int(sys.argv[1]), sys.argv[2]
rng = random.Random(seed)
libc = ctypes.CDLL(None, use_errno=True)
SIZE = 3 * MB
MAPS = status()["features"]["direct_mmap"] == "yes"

class Two:
	"""A file in the mount and the same on a plain filesystem; each change is made to both."""
	def __init__(self, name, flags):
		self.paths = mnt + "/" + name, plain + "/" + name
		self.fds = [os.open(path, os.O_RDWR | flags, 0o644) for path in self.paths]
		self.log = []
		self.maps = False

	def do(self, what, call):
		self.log.append(what)
		got = []
		for fd in self.fds:
			try:
				got.append(call(fd))
			except OSError as e:
				got.append(errno.errorcode[e.errno])
		assert got[0] == got[1], (self.log, got)

	def same(self):
		mine, other = (os.fstat(fd).st_size for fd in self.fds)
		assert mine == other, (self.log, mine, other)
		mine, other = (os.pread(fd, SIZE * 2, 0) for fd in self.fds)
		if mine != other:
			at = next(n for n in range(len(other)) if mine[n:n + 1] != other[n:n + 1])
			length = next((n for n in range(at, len(other)) if mine[n] == other[n]), len(other)) - at
			raise AssertionError((self.paths[0], self.log, "differs at", at, length, len(mine), mine[at:at + 20],
				other[at:at + 20]))

	def close(self):
		for fd in self.fds:
			os.close(fd)

def copy_range(fd, length, source, target):
	a, b = ctypes.c_int64(source), ctypes.c_int64(target)
	n = libc.copy_file_range(fd, ctypes.byref(a), fd, ctypes.byref(b), ctypes.c_size_t(length), 0)
	if n < 0:
		raise OSError(ctypes.get_errno(), "copy_file_range")
	return n

def fallocate(fd, mode, at, length):
	if libc.fallocate(fd, mode, ctypes.c_int64(at), ctypes.c_int64(length)):
		raise OSError(ctypes.get_errno(), "fallocate")

def store(fd, at, part):
	size = os.fstat(fd).st_size
	if at >= size:
		return
	part = part[:size - at]
	with mmap.mmap(fd, size) as m:
		m[at:at + len(part)] = part
		m.flush()

def change(f):
	kind = rng.choice("wwwwwwwaaattfpzchmrs")
	at = rng.choice((0, 4096, 65536, MB)) * rng.randrange(3) + rng.choice((0, 0, rng.randrange(70000)))
	length = rng.choice((1, 100, 4096, 65536, 300000, MB, rng.randrange(1, 200000)))
	at, length = min(at, SIZE), min(length, SIZE - at)
	part = rng.randbytes(length)
	if kind in "wa":
		if kind == "a": # right behind
			at = os.fstat(f.fds[1]).st_size
		f.do(("write", at, length), lambda fd: os.pwrite(fd, part, at))
	elif kind == "t":
		f.do(("truncate", at), lambda fd: os.ftruncate(fd, at))
	elif kind == "f":
		f.do(("allocate", at, length), lambda fd: fallocate(fd, rng.choice((0, 1)) * 0, at, max(length, 1)))
	elif kind == "p":
		f.do(("punch", at, length), lambda fd: fallocate(fd, 3, at, max(length, 1)))
	elif kind == "z":
		f.do(("zero", at, length), lambda fd: fallocate(fd, 16, at, max(length, 1)))
	elif kind == "c":
		target = (at + length + rng.randrange(MB)) % SIZE
		if abs(target - at) >= length:
			f.do(("copy", at, target, length), lambda fd: copy_range(fd, length, at, target))
	elif kind == "h":
		f.do(("holes", at), lambda fd: os.lseek(fd, at, os.SEEK_END) and 0) # moves nothing
	elif kind == "m" and MAPS:
		f.maps = True
		f.do(("store", at, length), lambda fd: store(fd, at, part))
	elif kind == "r":
		f.do(("read", at, length), lambda fd: os.pread(fd, length, at))
	elif kind == "s" and rng.random() < 0.4:
		f.do(("fsync",), os.fsync)

def check_digest(f):
	"""Python's mmap closes a duplicate of the descriptor: what is written later may be changed in place, and has none."""
	verify(back + "/x.pt", 0 if "user.ckptfs.xxh3" in os.listxattr(back + "/x.pt") or not f.maps else 1)

for nr in range(int(sys.argv[3])):
	for name in "x.bin", "x.pt":
		flags = (os.O_CREAT | os.O_TRUNC, os.O_CREAT, os.O_CREAT)[nr % 3]
		f = Two(name, flags)
		f.same()
		for _ in range(rng.randrange(1, 40)):
			change(f)
			if rng.random() < 0.2:
				f.same()
		f.same()
		f.close()
		assert read(f.paths[0]) == read(f.paths[1]), f.log
	if nr % 4 == 3:
		published()
		for name in "x.pt", "x.bin":
			assert read(back + "/" + name) == read(plain + "/" + name), (nr, name)
		check_digest(f)
published()
for name in "x.pt", "x.bin":
	assert read(back + "/" + name) == read(plain + "/" + name), name
check_digest(f)
assert failures() == [], failures()
END
	umount_ckptfs
	rm -f "$TEST_TMP/plain/"* "$TEST_TMP/disk/"*.*
}

FIRST=${CKPTFS_TEST_SEED-1}
for ((seed = FIRST; seed < FIRST + $(amount 1 3); seed++)); do
	changes "$seed" chunk_size=64K,host_cache_size=512K
	changes "$((seed + 1000))" chunk_size=1M,host_cache_size=64M
done
