#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A directory of very many files: listed completely, twice the same; telldir and seekdir; removing while listing, and
# everything that is there before and after the listing began is in it.
#
# timeout: 120
# cpu: 15
# long: 120

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
mkdir "$BACK/dir"
expect_ok "$PYTHON" - "$BACK/dir" "$MNT/dir" <<'END'
import ctypes, os, random, sys
back, mnt = sys.argv[1:]
COUNT, MOST = 100000 if "CKPTFS_TEST_LONG" in os.environ else 30000, 20000
names = ["checkpoint-shard-%06d-of-something" % i for i in range(COUNT)]
fd = os.open(back, os.O_RDONLY)
for name in names[:-100]:
	os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
for name in names[-100:]:
	open(mnt + "/" + name, "w").close()
first = os.listdir(mnt)
assert len(first) == COUNT and set(first) == set(names), len(first)
assert os.listdir(mnt) == first

class Dirent(ctypes.Structure):
	_fields_ = [("ino", ctypes.c_ulong), ("off", ctypes.c_long), ("reclen", ctypes.c_ushort),
		("type", ctypes.c_ubyte), ("name", ctypes.c_char * 256)]
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.POINTER(Dirent)
libc.readdir.argtypes = libc.telldir.argtypes = libc.rewinddir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
libc.telldir.restype = ctypes.c_long
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
d = libc.opendir(mnt.encode())
def entry():
	e = libc.readdir(d)
	return e.contents.name.decode() if e else None
places, order = [], []
for i in range(30000):
	if i % 997 == 0:
		places.append((libc.telldir(d), i))
	order.append(entry())
random.shuffle(places)
for place, i in places:
	libc.seekdir(d, place)
	assert [entry() for _ in range(3)] == order[i:i + 3], i
# What is removed while it lists, right behind and ahead of it, does not disturb the rest.
libc.rewinddir(d)
gone, seen = set(), set()
while name := entry():
	assert name not in seen, name
	seen.add(name)
	if name[0] != "." and len(gone) < MOST:
		os.unlink(mnt + "/" + name)
		gone.add(name)
libc.closedir(d)
assert set(names) - gone <= seen, len(set(names) - gone - seen)
left = os.listdir(mnt)
assert len(left) == COUNT - MOST and set(left) == set(names) - gone == set(os.listdir(back))
for name in left: # the rest on the backing, for speed
	os.unlink(name, dir_fd=fd)
assert os.listdir(mnt) == []
os.rmdir(mnt)
END
umount_ckptfs
