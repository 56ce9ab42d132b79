#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a trainer has put into lent memory is flushed from there: also small tensors side by side, and tensors between plain
# bytes that were written before. Only where plain bytes prevail are the captured ones copied. The files are right anyway:
# random ones, of plain and captured pieces written in any order, with memory for a part of them.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=32M
program <<'END'
from capture import *
import random

copied = lambda: status()["captures"]["copied_bytes"]
s = Session(rank=0, world=1, arena=12 * MB)

def save(name, pieces):
	"""@pieces: [(offset, bytes, by handle)], in the order in which they are written."""
	for i, (at, b, handle) in enumerate(pieces):
		if handle:
			s.register({i + 1: len(b)})
	end = max(at + len(b) for at, b, handle in pieces)
	with open(mnt + "/" + name, "wb", 0) as f:
		for i, (at, b, handle) in enumerate(pieces):
			if handle:
				s.write(f, (i + 1, at, 0, len(b), b))
			else:
				assert os.pwrite(f.fileno(), b, at) == len(b)
		s.capture()
		s.unregister(*[i + 1 for i, p in enumerate(pieces) if p[2]])
		want = bytearray(end)
		for at, b, handle in pieces:
			want[at:at + len(b)] = b
		assert read(mnt + "/" + name) == bytes(want), name
	wait(lambda: os.path.exists(back + "/" + name))
	assert read(back + "/" + name) == bytes(want), name

# One large tensor, whose chunks are whole but for the last; small ones, which share chunks.
save("large.pt", [(0, data(1, 7 * MB + 12345), True)])
save("small.pt", [(i * 20000, data(i, 20000), True) for i in range(300)])
assert copied() == 0
# As torch.save lays it out: a header before each tensor, written before the tensors are.
heads = [(i * 20100, data(i, 100), False) for i in range(300)]
save("between.pt", heads + [(at + 100, data(at, 20000), True) for at, _, _ in heads])
assert copied() == 0
# A header in the first chunk, and the rest of that chunk and more.
save("head.pt", [(0, data(7, 4096), False), (4096, data(8, 3 * MB), True)])
assert copied() == 0
# Small tensors in much that is plain.
save("plain.pt", [(0, data(9, MB), False), (1000, data(10, 1000), True)])
assert copied() == 1000

# Lent memory holds nothing of a file that is another user's.
if os.getuid() == 0:
	before = copied()
	with open(mnt + "/others.pt", "wb", 0) as f:
		os.fchmod(f.fileno(), 0o666)
		pid = os.fork()
		if not pid:
			os.setuid(12345)
			t = Session(rank=0, world=1, arena=2 * MB)
			t.register({1: 3 * MB})
			with open(mnt + "/others.pt", "r+b", 0) as g:
				t.write(g, (1, 0, 0, 3 * MB, data(5, 3 * MB)))
				t.capture()
			os._exit(0)
		assert os.waitpid(pid, 0)[1] == 0
	wait(lambda: os.path.exists(back + "/others.pt"))
	assert read(back + "/others.pt") == data(5, 3 * MB)
	assert copied() == before + 3 * MB

s.bye()
s = Session(rank=0, world=1, arena=4 * MB) # of which some is copied on
seed = int(os.environ.get("SEED", "1"))
for n in range(seed, seed + 20):
	r = random.Random(n)
	pieces, at = [], 0
	for i in range(r.randrange(1, 60)):
		at += r.choice((0, 0, 0, 1, 64, 5000))
		size = r.choice((1, 63, 64, 4096, 20000, 300000, MB))
		pieces.append((at, data(n + i, size), r.random() < 0.7))
		at += size
	r.shuffle(pieces) if r.random() < 0.5 else None
	if not any(handle for _, _, handle in pieces):
		continue
	save("random%d.pt" % n, pieces)
assert failures() == [], failures()
END
umount_ckptfs
