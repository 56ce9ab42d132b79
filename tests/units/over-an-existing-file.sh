#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A save over a file: on the backing the old one stays whole until the new one takes its place, whole, in one step; in
# the mount the new one is seen at once, under one inode number from its creation through the publish.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
first, second = data(1, 5 * MB + 123), data(2, 6 * MB + 1)

# New: nothing shows on the backing before it is whole.
with gate_closed():
	with open(x, "wb") as f:
		f.write(first[:3 * MB])
		f.flush()
		number = inode(x)
		assert os.stat(x).st_size == 3 * MB, os.stat(x)
		assert names().count("x.pt") == 1, names()
		assert not os.path.exists(on_backing) and len(staging()) == 1
		assert pending() == {"x.pt": "open"}
		f.write(first[3 * MB:])
	assert pending()["x.pt"] != "open"
	assert read(x) == first and inode(x) == number and names().count("x.pt") == 1
	assert not os.path.exists(on_backing)
published()
assert read(x) == first and read(on_backing) == first and inode(x) == number == inode(on_backing)
assert os.stat(x).st_mtime_ns == os.stat(on_backing).st_mtime_ns
assert not staging() and names().count("x.pt") == 1
verify(on_backing)

# Over it. Who has the old one open, or mapped, keeps it.
old = os.open(x, os.O_RDONLY)
shared = mmap.mmap(old, 0, prot=mmap.PROT_READ)
private = mmap.mmap(old, 0, flags=mmap.MAP_PRIVATE)
private[:4] = b"mine"
untouched = os.open(x, os.O_RDONLY) # not read before it is replaced
def old_ones():
	assert os.fstat(old).st_ino == number and os.fstat(old).st_size == len(first)
	assert os.pread(old, len(first), 0) == first
	assert shared[:] == first and private[:] == b"mine" + first[4:]
with gate_closed():
	f = open(x, "wb")
	assert os.stat(x).st_size == 0
	new_number = inode(x)
	assert new_number != number
	f.write(second)
	f.flush()
	assert read(x) == second
	f.close()
	assert pending() == {"x.pt": "sealed"} or status()["features"]["odirect"] != "yes", pending()
	for _ in range(3):
		assert read(x) == second and inode(x) == new_number and os.stat(x).st_size == len(second)
		assert names().count("x.pt") == 1
		assert read(on_backing) == first and inode(on_backing) == number
		old_ones()
	new = os.open(x, os.O_RDONLY)
	new_map = mmap.mmap(new, 0, prot=mmap.PROT_READ)
	assert new_map[:] == second
published()
assert read(on_backing) == second and inode(on_backing) == new_number == inode(x)
assert names().count("x.pt") == 1 and not staging()
assert os.pread(untouched, len(first), 0) == first
old_ones()
assert new_map[:] == second and os.pread(new, len(second), 0) == second and os.fstat(new).st_ino == new_number
assert read(x) == second
verify(on_backing)
assert failures() == []

# Shorter, empty, and of a name that is no checkpoint's, which is written in place.
for content in second[:100], b"", second[:MB]:
	save(x, content)
	assert read(x) == content
	published()
	assert read(on_backing) == content == read(x)
	verify(on_backing)
plain = mnt + "/plain"
save(plain, first)
number = inode(plain)
save(plain, second)
assert inode(plain) == number and read(back + "/plain") == second
END
umount_ckptfs
