#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The smallest cache there may be, eight chunks: files many times its size, a hundred writers at once, to checkpoints and
# ordinary files, while others read what is not flushed yet; rewriting what has been flushed and what has left the cache.
#
# timeout: 90
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 768 "$TEST_TMP/disk"
mount_ckptfs -o chunk_size=64K,host_cache_size=512K "$TEST_TMP/disk"
status_is "s['cache']['size'] == 512 * 1024 and s['cache']['chunk_size'] == 65536" || die "another cache"
program <<'END'
from units import *

def same(*paths):
	"""Identical on the backing, and so as the digest says."""
	for path, content in paths:
		assert read(mnt + "/" + path) == content == read(back + "/" + path), path
		if path.endswith(".pt"):
			verify(back + "/" + path)

# Much larger than the cache, in pieces of all sizes; read on the way, where some of it is flushed and some not.
size = 24 * MB + 4321
content = data(1, size)
for name in "big.pt", "big.bin":
	rng = random.Random(2)
	with open(mnt + "/" + name, "w+b", buffering=0) as f:
		at = 0
		while at < size:
			step = rng.choice((1, 1000, 4096, 65536, 100000, MB, 3 * MB))
			f.write(content[at:at + step])
			at = min(at + step, size)
			for behind in rng.randrange(200000), rng.randrange(8 * MB), at:
				start = max(at - behind, 0)
				assert os.pread(f.fileno(), 3000, start) == content[start:min(start + 3000, at)], (at, start)
published()
same(("big.pt", content), ("big.bin", content))

# From the end to the start, and every other piece first.
for order in range(0, size, 50000)[::-1], list(range(0, size, 50000))[::2] + list(range(0, size, 50000))[1::2]:
	for name in "big.pt", "big.bin":
		fd = os.open(mnt + "/" + name, os.O_RDWR | os.O_TRUNC)
		for at in order:
			os.pwrite(fd, content[at:at + 50000], at)
		assert os.fstat(fd).st_size == size
		os.close(fd)
	published()
	same(("big.pt", content), ("big.bin", content))

# What has been flushed, and what has left the cache, is written again, in part.
for name in "big.pt", "big.bin":
	want = bytearray(content)
	fd = os.open(mnt + "/" + name, os.O_RDWR | os.O_TRUNC)
	rng = random.Random(3)
	for at in range(0, size, MB):
		os.pwrite(fd, content[at:at + MB], at)
		for _ in range(4):
			again = rng.randrange(at + 1)
			part = rng.randbytes(rng.choice((1, 700, 65536, 150000)))[:len(content) - again]
			os.pwrite(fd, part, again)
			written = min(at + MB, size)
			want[again:again + len(part)] = part
			if again + len(part) > written: # what lies behind is written next
				want[written:again + len(part)] = content[written:again + len(part)]
	os.fsync(fd)
	for again in range(0, size, 3 * MB):
		os.pwrite(fd, b"again", again)
		want[again:again + 5] = b"again"
	os.close(fd)
	published()
	same((name, bytes(want)))

# A hundred at once, each in a process of its own; a reader follows each tenth.
def one(nr):
	path = mnt + "/%d.%s" % (nr, "pt" if nr % 3 else "bin")
	part = data(nr, 700000 + nr * 100)
	fd = os.open(path, os.O_CREAT | os.O_RDWR)
	for at in range(0, len(part), 90000):
		os.pwrite(fd, part[at:at + 90000], at)
		if nr % 10 == 0:
			assert os.pread(fd, at + 90000, 0) == part[:at + 90000]
	if nr % 7 == 0:
		os.fsync(fd)
	os.close(fd)
children = [child(lambda nr=nr: one(nr)) for nr in range(100)]
stopped = False
def follow():
	while not stopped:
		for nr in range(0, 100, 10):
			path = mnt + "/%d.%s" % (nr, "pt" if nr % 3 else "bin")
			if os.path.exists(path):
				got = read(path)
				assert got == data(nr, 700000 + nr * 100)[:len(got)], path
follower = child(follow)
assert [reap(pid) for pid in children] == [0] * 100
os.kill(follower, signal.SIGKILL)
assert reap(follower) == -9
published()
same(*(("%d.%s" % (nr, "pt" if nr % 3 else "bin"), data(nr, 700000 + nr * 100)) for nr in range(100)))
cache = status()["cache"]
assert cache["dirty"] == cache["flying"] == cache["waiting"] == 0 and cache["stalls"] > 100, cache
assert cache["free"] + cache["clean"] == cache["size"], cache
assert failures() == [], failures()
END
umount_ckptfs
