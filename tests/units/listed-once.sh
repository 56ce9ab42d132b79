#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A directory lists each name exactly once, whatever is published while it is read; hidden names never show, and cannot
# be made, reached or removed by anybody.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1,chunk_size=64K,host_cache_size=128M "$TEST_TMP/disk"
program <<'END'
from units import *

# While all are pending, one by one as they are published, and when all are there; old ones and new ones.
here = sorted("%04d.%s" % (n, "pt" if n % 3 else "txt") for n in range(2000))
for name in here[::4]:
	save(mnt + "/" + name, b"old")
published()
with flush_held():
	for name in here:
		if name.endswith("pt"):
			save(mnt + "/" + name, b"new")
		elif name not in here[::4]: # written back at close
			save(mnt + "/" + name, b"")
	assert names() == here
	listing = os.scandir(mnt)
	entries = [next(listing) for _ in range(700)] # the kernel asks for more than that, and then for the rest
listings = 0
while pending():
	assert names() == here
	listings += 1
entries += listing
assert sorted(e.name for e in entries if e.name != "lost+found") == here
assert names() == here == sorted(n for n in os.listdir(back) if n[0] != "." and n != "lost+found")
for e in os.scandir(mnt):
	assert e.name == "lost+found" or e.inode() == inode(e.path), e.name
for name in here[::50]:
	assert read(mnt + "/" + name) == read(back + "/" + name) != (b"old" if name.endswith("pt") else b"new")

# Renamed and removed while it is read; telldir and seekdir among them.
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
libc.readdir.argtypes = libc.telldir.argtypes = libc.closedir.argtypes = libc.rewinddir.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
os.mkdir(mnt + "/d")
for n in range(30):
	save(mnt + "/d/%02d.pt" % n, b"x")
published()
def readdir(d):
	e = libc.readdir(d)
	return ctypes.string_at(e + 19).decode() if e else None # struct dirent: d_name
with flush_held():
	for n in range(20, 60):
		save(mnt + "/d/%02d.pt" % n, b"y")
	d = libc.opendir((mnt + "/d").encode())
	seen = []
	while True:
		at = libc.telldir(d)
		name = readdir(d)
		if not name:
			break
		seen.append((at, name))
	assert sorted(n for _, n in seen) == [".", ".."] + ["%02d.pt" % n for n in range(60)]
	for at, name in random.Random(1).sample(seen, 20):
		libc.seekdir(d, at)
		assert readdir(d) == name
	libc.rewinddir(d)
	assert [n for _, n in seen] == [readdir(d) for _ in seen]
	os.rename(mnt + "/d/59.pt", mnt + "/d/60.pt")
	os.unlink(mnt + "/d/58.pt")
	libc.rewinddir(d)
	assert sorted(iter(lambda: readdir(d), None)) == \
		[".", ".."] + ["%02d.pt" % n for n in range(61) if n not in (58, 59)]
	libc.closedir(d)
published()

# Hidden names.
with open(mnt + "/open.pt", "wb") as f:
	f.write(b"z")
	f.flush()
	hidden = staging()
	assert len(hidden) == 1
	for name in hidden + [".ckptfs-", ".ckptfs-0123"]:
		path = mnt + "/" + name
		assert name not in os.listdir(mnt) and not os.path.lexists(path)
		for call in (lambda: os.open(path, os.O_RDONLY), lambda: os.unlink(path), lambda: os.rmdir(path),
				lambda: os.rename(path, mnt + "/seen"), lambda: os.truncate(path, 0), lambda: os.stat(path),
				lambda: os.link(path, mnt + "/seen"), lambda: os.chmod(path, 0)):
			fails(errno.ENOENT, call)
		for call in (lambda: save(path, b""), lambda: os.mkdir(path), lambda: os.mknod(path), lambda: os.mkfifo(path),
				lambda: os.symlink("x", path), lambda: os.link(mnt + "/0001.pt", path),
				lambda: os.rename(mnt + "/0001.pt", path), lambda: os.rename(mnt + "/0000.txt", path),
				lambda: os.rename(mnt + "/d", path), lambda: os.open(path, os.O_CREAT | os.O_RDWR | os.O_EXCL)):
			fails(errno.EPERM, call)
	os.mkdir(back + "/.ckptfs-dir")
	fails(errno.ENOENT, os.rmdir, mnt + "/.ckptfs-dir")
	os.rmdir(back + "/.ckptfs-dir")
	assert staging() == hidden
published()
assert read(back + "/open.pt") == b"z" and not staging() and not staging(back + "/d")
assert failures() == [], failures()
END
umount_ckptfs
