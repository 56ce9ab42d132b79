#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A save ends when those who wrote have closed it, whoever else still has the descriptor: forked children, duplicates,
# temporary files used by name and by handle. What is written after all is not lost.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 256 "$TEST_TMP/disk"

descriptors() {
	mount_ckptfs -o quiet_s=1 "$TEST_TMP/disk"
	program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
old, new = data(1, MB + 3), data(2, 2 * MB + 5)

def fresh():
	save(x, old)
	published()

# NamedTemporaryFile, removed at its end, used by name and by handle at once.
with tempfile.NamedTemporaryFile(dir=mnt, suffix=".pt") as f:
	assert os.path.basename(f.name) in names()
	f.write(new)
	f.flush()
	assert read(f.name) == new
	with open(f.name, "r+b") as other:
		assert os.fstat(other.fileno()).st_ino == os.fstat(f.fileno()).st_ino == inode(f.name)
		other.seek(10)
		other.write(b"other")
	f.seek(0)
	assert f.read() == new[:10] + b"other" + new[15:]
	save(f.name, old) # a new one of that name, where it is known that this process has closed what it wrote
	assert read(f.name) == old
	f.seek(0)
	assert f.read() in (old, new[:10] + b"other" + new[15:])
assert names() == []
published()
assert names(back) == [".ckptfs"], names(back)

# Also where it has been published by then: what has such a name is no checkpoint that is kept until there is a newer one.
with tempfile.NamedTemporaryFile(dir=mnt, suffix=".pt") as f:
	save(f.name, old)
	wait(lambda: os.path.exists(back + "/" + os.path.basename(f.name)))
assert names() == [] and names(back) == [".ckptfs"], names(back)

# Kept, under another name.
f = tempfile.NamedTemporaryFile(dir=mnt, suffix=".pt", delete=False)
f.write(new)
os.rename(f.name, x)
f.write(new)
f.close()
published()
assert read(on_backing) == new * 2
verify(on_backing)

# A forked child holds the descriptor, for as long as it likes.
fresh()
f = open(x, "wb")
f.write(new)
f.flush()
r, w = os.pipe()
holder = child(lambda: os.close(w) or os.read(r, 1))
assert read(on_backing) == old
f.close()
published() # although it holds it
assert read(on_backing) == new
verify(on_backing)
os.close(w)
assert reap(holder) == 0
assert read(x) == new and pending() == {}

# The child writes, too: it ends when both have closed, in either order.
for child_first in True, False:
	fresh()
	fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
	os.write(fd, new[:MB])
	go, told = os.pipe(), os.pipe()
	def write_rest():
		os.close(go[1])
		os.write(fd, new[MB:])
		os.write(told[1], b"x")
		os.read(go[0], 1)
		os.close(fd)
	writer = child(write_rest)
	os.read(told[0], 1)
	if child_first:
		os.close(go[1])
		assert reap(writer) == 0
		assert pending() == {"x.pt": "open"} and read(on_backing) == old
		os.close(fd)
	else:
		os.close(fd)
		assert pending() == {"x.pt": "open"} and read(on_backing) == old
		os.close(go[1])
		assert reap(writer) == 0
	published()
	assert read(on_backing) == new == read(x)
	verify(on_backing)

# Only the child writes, as where a save is made in the background; and exits without a close.
fresh()
fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
writer = child(lambda: os.write(fd, new[:MB]) and os.write(fd, new[MB:]))
assert reap(writer) == 0
os.close(fd)
published()
assert read(on_backing) == new
verify(on_backing)

# Duplicates: of one closed, the other goes on.
fresh()
fd = os.open(x, os.O_RDWR | os.O_TRUNC)
dup = os.dup(fd)
os.write(fd, new[:MB])
os.close(fd)
os.write(dup, new[MB:])
assert os.pread(dup, len(new), 0) == new == read(x)
os.close(dup)
published()
assert read(on_backing) == new
verify(on_backing)

# Whoever writes after all, when it is published long since: the bytes arrive, and no digest vouches for them.
fresh()
fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
dup = os.dup(fd)
os.write(fd, new)
os.close(fd)
published()
assert read(on_backing) == new
verify(on_backing)
os.pwrite(dup, b"late", 5)
assert read(x) == new[:5] + b"late" + new[9:] == read(on_backing)
verify(on_backing, 1)
os.close(dup)
fresh()
verify(on_backing)

# The same of an old save that has been replaced: nobody sees it but who has it open.
fd = os.open(x, os.O_RDWR | os.O_TRUNC)
dup = os.dup(fd)
os.write(fd, old)
os.close(fd)
published()
save(x, new)
os.pwrite(dup, b"late", 0)
assert os.pread(dup, 8, 0) == b"late" + old[4:8]
os.close(dup)
published()
assert read(on_backing) == new == read(x)
verify(on_backing)

# Two programs at a time: what both wrote, each to its part.
fresh()
a, b = os.open(x, os.O_WRONLY | os.O_TRUNC), os.open(x, os.O_WRONLY)
def halves(fd, at):
	for n in range(at, at + 512 * 1024, 64 * 1024):
		os.pwrite(fd, new[n:n + 64 * 1024], n)
children = [child(lambda: halves(a, 0)), child(lambda: halves(b, 512 * 1024)), child(lambda: halves(a, MB))]
os.close(a)
os.close(b)
assert [reap(pid) for pid in children] == [0, 0, 0]
published()
assert read(on_backing) == new[:MB + 512 * 1024]
verify(on_backing)

# A mapping outlives the descriptor.
fresh()
fd = os.open(x, os.O_RDWR)
m = mmap.mmap(fd, len(old))
os.close(fd)
m[100:105] = b"store"
m.flush()
m[MB - 2:MB + 1] = b"end"
m.close()
want = bytearray(old)
want[100:105], want[MB - 2:MB + 1] = b"store", b"end"
wait(lambda: status()["open_handles"] == 0)
published()
assert read(x) == want == read(on_backing)
assert failures() == [], failures()
END
	umount_ckptfs
	rm -f "$TEST_TMP/disk/"*.pt
}

descriptors
# Without direct_mmap files open for reading and writing go through the page cache, and the kernel does not say who wrote.
export CKPTFS_FEATURES_OFF=direct_mmap
descriptors
