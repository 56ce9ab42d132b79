#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file four times as large as the cache is what was written to it, byte for byte, at any time: while it is written, by
# others too, when parts that were flushed and have left the cache are written again, cut and extended, and afterwards.
# With and without O_DIRECT.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 400 "$TEST_TMP/disk"

large() {
	mount_ckptfs -o host_cache_size=8M "$TEST_TMP/disk"
	program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
size = 32 * MB + 4321
rng = random.Random(1)
old = data(1, 1000)
save(x, old)
wait_for(x)

def same(fd, want):
	"""For the program that writes, and for one that opens it now."""
	assert os.fstat(fd).st_size == len(want)
	for reader in fd, os.open(x, os.O_RDONLY):
		got = bytearray()
		while part := os.pread(reader, 5 * MB + 1, len(got)):
			got += part
		assert got == want, next(at for at in range(len(want)) if got[at:at + 1] != want[at:at + 1])
	os.close(reader)
	assert read(on_backing) == old

def rewrite(fd, want, at, part):
	assert os.pwrite(fd, part, at) == len(part)
	if at > len(want):
		want += bytes(at - len(want))
	want[at:at + len(part)] = part

# From start to end, with what was written long ago written again on the way.
want = bytearray()
fd = os.open(x, os.O_RDWR | os.O_TRUNC)
while len(want) < size:
	rewrite(fd, want, len(want), rng.randbytes(min(rng.choice((4096, 100001, MB, 3 * MB)), size - len(want))))
	if rng.random() < 0.3:
		at = rng.randrange(len(want))
		rewrite(fd, want, at, rng.randbytes(rng.choice((1, 4096, 70000)))[:len(want) - at])
	at = rng.randrange(len(want))
	assert os.pread(fd, 100000, at) == want[at:at + 100000]
assert status()["flush"]["bytes"] > 16 * MB # it has left the cache, for the most part
same(fd, want)

# All over it, in pieces of all sizes, by two descriptors.
other = os.open(x, os.O_WRONLY)
for nr in range(150):
	at = rng.randrange(len(want))
	part = rng.randbytes(rng.choice((1, 511, 4096, 65536, 300001, 2 * MB)))[:len(want) - at]
	rewrite(other if nr % 2 else fd, want, at, part)
	at = max(0, at - 5000)
	assert os.pread(fd, len(part) + 10000, at) == want[at:at + len(part) + 10000], nr
same(fd, want)

# Cut and extended, in the middle of what was flushed.
for cut in 25 * MB + 5, 9 * MB - 1:
	os.ftruncate(fd, cut)
	del want[cut:]
	rewrite(other, want, len(want) + 3 * MB + 7, b"behind a hole")
	assert os.pread(fd, 4 * MB, cut - 100) == want[cut - 100:]
while len(want) < size:
	rewrite(fd, want, len(want), rng.randbytes(min(MB, size - len(want))))
os.fsync(fd)
rewrite(fd, want, 0, b"synced, and changed")
rewrite(other, want, MB - 3, b"here, too")
same(fd, want)
os.close(other)
os.close(fd)
assert read(x) == want
wait_for(x)
assert read(on_backing) == want == read(x)
verify(on_backing)

# Changed in place later, as a copy first: most of it is not in the cache.
old = bytes(want)
fd = os.open(x, os.O_RDWR)
for nr in range(20):
	at = rng.randrange(len(want))
	rewrite(fd, want, at, rng.randbytes(rng.choice((1, 4096, 300001)))[:len(want) - at])
same(fd, want)
os.close(fd)
wait_for(x)
assert read(on_backing) == want == read(x)
verify(on_backing)
assert failures() == [] and not staging(), failures()
END
	umount_ckptfs
}

large
CKPTFS_FEATURES_OFF=odirect,io_uring large
