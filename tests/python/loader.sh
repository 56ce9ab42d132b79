#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Samples that the workers of dataloaders have not handed out go on with other numbers of ranks and workers: each once, in the
# order in which they would have been handed out. Files that are missing or damaged are told.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
mount_ckptfs
program <<'END'
import os, random
from ckptfs import CheckpointError, loader

mnt = os.environ["MNT"]
draw = random.Random(5)
shapes = [(4, 2), (6, 1), (3, 3), (3, 3), (1, 1), (2, 5)]

class Loader:
	"""The dataloaders of all ranks: each rank takes from its workers in turn."""
	def __init__(self, buffers):
		self.buffers, self.turn = buffers, 0
	def hand_out(self):
		"""A sample for each rank, if there is one for each."""
		taken = []
		for workers in self.buffers:
			buffer = workers[self.turn % len(workers)]
			if buffer:
				taken.append(buffer.pop(0))
		self.turn += 1
		return taken

def saved(path, world, buffers):
	for rank in range(world):
		loader.save(path, buffers[rank], shared={"epoch": 3}, rank=rank, world=world)

samples = ["sample %d" % n * draw.randrange(1, 9) for n in range(1000)]
world, workers = shapes[0]
left = [[[] for _ in range(workers)] for _ in range(world)]
for place, sample in enumerate(samples):
	left[place % world][place // world % workers].append(sample)
now, handed = Loader(left), []
for n, (world, workers) in enumerate(shapes[1:]):
	# A whole round of all workers, so that the next taker begins with the first.
	for _ in range(3 * len(now.buffers[0])):
		handed += now.hand_out()
	path = "%s/step-%d" % (mnt, n)
	os.mkdir(path)
	saved(path, len(now.buffers), now.buffers)
	found = [loader.load(path, workers=workers, rank=rank, world=world) for rank in range(world)]
	assert all(state == {"epoch": 3} for _, state in found)
	buffers = [one for one, _ in found]
	if (world, workers) == (len(now.buffers), len(now.buffers[0])):
		assert buffers == now.buffers
	lengths = [len(buffer) for one in buffers for buffer in one]
	assert max(lengths) - min(lengths) <= 1, lengths
	now = Loader(buffers)
while any(buffer for one in now.buffers for buffer in one):
	handed += now.hand_out()
assert handed == samples

# However many ranks, workers and samples: each sample once.
for n in range(100):
	path = "%s/any-%d" % (mnt, n % 3) # into directories of former saves, too
	world, to_world, to_workers = (draw.randrange(1, 5) for _ in range(3))
	buffers = [[["%d.%d.%d" % (rank, worker, i) for i in range(draw.randrange(4))] for worker in range(draw.randrange(1, 4))]
		for rank in range(world)]
	saved(path, world, buffers)
	found = [loader.load(path, workers=to_workers, rank=rank, world=to_world)[0] for rank in range(to_world)]
	everything = sorted(sample for one in buffers for buffer in one for sample in buffer)
	assert sorted(sample for one in found for buffer in one for sample in buffer) == everything, n
	if to_world == world and all(len(one) == to_workers for one in buffers):
		assert found == buffers
# Of ranks with other numbers of workers the order is kept, too.
saved(mnt + "/uneven", 2, [[["a0", "a1"]], [["b0", "b1"], ["c0"]]])
assert loader.load(mnt + "/uneven", workers=1, rank=0, world=1)[0] == [["a0", "b0", "a1", "c0", "b1"]]
os.environ.update(SLURM_PROCID="1", SLURM_NTASKS="2")
loader.save(mnt + "/slurm", [["of rank 1"]])
del os.environ["SLURM_PROCID"]
assert os.listdir(mnt + "/slurm/loader") == ["00001.000.samples"]
try:
	loader.save(mnt + "/slurm", [])
except ValueError as error:
	assert "a list for each worker" in str(error)
else:
	raise AssertionError

def fails(text, **arguments):
	try:
		loader.load(path, **dict(dict(workers=1, rank=0, world=1), **arguments))
	except (CheckpointError, ValueError) as error:
		assert text in str(error), error
	else:
		raise AssertionError(text)

path = mnt + "/more"
saved(path, 2, [[["a"]], [["b"]]])
with open(path + "/loader/00000.000.samples", "rb") as one, open(path + "/loader/00002.000.samples", "wb") as other:
	other.write(one.read())
fails("files of too many ranks")
path = mnt + "/bad"
saved(path, 2, [[["a", "b"], ["c"]], [["d"], []]])
loader.load(path, workers=1, rank=0, world=1)
fails("rank 3 is not one of 2", rank=3, world=2)
fails("there are 0 workers", workers=0)
one = path + "/loader/00001.000.samples"
with open(one, "rb") as file:
	whole = file.read()
for damaged, text in (
		(b"", "it does not begin"), (b"x" + whole[1:], "it does not begin"), (whole[:-1], "are said"), (whole + b"x", "are said"),
		(whole[:24] + b"\xff" * 8 + whole[32:], "it is cut off"), (whole[:32] + b"\xff" * 8 + whole[40:], "are said"),
		(whole[:8] + b"\x03" + whole[9:], "other numbers of ranks"), (whole[:16] + b"\x03" + whole[17:], "lacks files of rank 1"),
		(whole[:16] + b"\xff" * 7 + whole[23:], "lacks files of rank 1"), (whole[:40] + b"x" * (len(whole) - 40), "cannot be decoded")):
	with open(one, "wb") as file:
		file.write(damaged)
	fails(text)
os.remove(one)
fails("lacks files of rank 1")
os.remove(path + "/loader/00001.001.samples")
fails("no file of rank 1")
for name in os.listdir(path + "/loader"):
	if name != "shared":
		os.remove(path + "/loader/" + name)
fails("has no file of samples")
os.remove(path + "/loader/shared")
os.rmdir(path + "/loader")
fails("is not there")
END
umount_ckptfs
