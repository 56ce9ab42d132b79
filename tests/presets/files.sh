#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What frameworks write into directories of other things: TensorFlow's checkpoints, each file of which is one unit, exports
# in numbered parts, which their index ends, and single files.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

def single(rank, path, seed, write):
	"""Nothing of it has its name before the end of write(), which leaves it open."""
	before = read(back + "/" + path) if os.path.exists(back + "/" + path) else None
	write()
	if before is None:
		absent(path)
	else:
		assert read(back + "/" + path) == before
	rank.close(path)
	wait_for(mnt + "/" + path)
	verify(back + "/" + path)
	assert read(back + "/" + path) == read(mnt + "/" + path)

with Job(2) as job:
	job[0].mkdir("tf")
	job[0].append("tf/events.out", "0")
	ordinary("tf/events.out")
	# Each host writes its part below a temporary prefix; host 0 gives all their names, then the index.
	for step in 1, 2:
		prefix, temp = "tf/ckpt-%d" % step, "tf/ckpt-%d_temp" % step
		job[0].mkdir(temp)
		for rank in job:
			part = "%s/part-%05d-of-00002" % (temp, rank.rank)
			rank.file(part + ".data-00000-of-00001", 50000, step)
			rank.file(part + ".index", 500, step)
		for rank in job:
			absent("%s.data-%05d-of-00002" % (prefix, rank.rank))
			job[0].rename("%s/part-%05d-of-00002.data-00000-of-00001" % (temp, rank.rank),
				"%s.data-%05d-of-00002" % (prefix, rank.rank))
		for rank in job:
			job[0].unlink("%s/part-%05d-of-00002.index" % (temp, rank.rank))
		job[0].rmdir(temp)
		job[0].file(prefix + ".index.tempstate123", 600, step)
		job[0].rename(prefix + ".index.tempstate123", prefix + ".index")
		job[0].text("tf/checkpoint.tmp", 'model_checkpoint_path: "ckpt-%d"\n' % step)
		job[0].rename("tf/checkpoint.tmp", "tf/checkpoint")
		published()
		ordinary("tf/checkpoint")
		for name in ".data-00000-of-00002", ".data-00001-of-00002", ".index":
			ordinary(prefix + name)
		assert not os.path.exists(back + "/" + temp)
		job[1].append("tf/events.out", str(step))
	assert read(back + "/tf/events.out") == b"012"

	# An export in parts into a directory that has other things; with what follows the index; and once more.
	job[0].makedirs("export/logs")
	job[0].text("export/logs/log", "1")
	job[0].text("export/config.json", "{}")
	for seed in 0, 1:
		before = tree(back + "/export")
		for i in 1, 2:
			job[0].file("export/model-%05d-of-00002.safetensors" % i, 70000, seed)
		assert tree(back + "/export") == before
		if not seed:
			assert set(before) == {"config.json", "logs/log"}
			assert "the close of *.index.json" in state("export")["waits_for"]
		job[0].create("export/model.safetensors.index.json")
		job[0].write("export/model.safetensors.index.json", 400, seed)
		assert tree(back + "/export") == before
		job[0].close("export/model.safetensors.index.json")
		committed("export", "close *.index.json + all closed", ["config.json", "logs/log",
			"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"])
	assert read(back + "/export/model-00002-of-00002.safetensors") == safetensors(1, 70000)

	# torch.distributed.checkpoint's writer of this format: headers first, then their files are opened again and filled.
	job[0].mkdir("consolidated")
	for i in 1, 2:
		job[0].header("consolidated/model-%05d-of-00002.safetensors" % i, 50000)
	wait(lambda: [g["path"] for g in status()["pending"] if g["path"].startswith("consolidated")] == ["consolidated"])
	for i in 1, 2:
		for rank in job:
			rank.refill("consolidated/model-%05d-of-00002.safetensors" % i, 100 + 25000 * rank.rank, 25000, i)
	open_for("consolidated", "the close of *.index.json", "sharded-export")
	job[0].text("consolidated/model.safetensors.index.json", "{}")
	committed("consolidated", "close *.index.json + all closed", ["model-00001-of-00002.safetensors",
		"model-00002-of-00002.safetensors", "model.safetensors.index.json"])
	assert read(back + "/consolidated/model-00002-of-00002.safetensors")[100:] == data(2, 25000) * 2

	# Single files: rank 0 alone, or each its own; ordinary ones beside them are what they are at once.
	job[0].mkdir("files")
	for seed in 1, 2:
		for name in "model.pt", "model.pth", "last.ckpt", "weights.keras":
			path = "files/" + name
			single(job[0], path, seed, lambda: (job[0].create(path), job[0].write(path, 90000, seed)))
		for rank in job:
			rank.file("files/rank%d.pt" % rank.rank, 30000, seed)
		job[0].through_temp("files/model.safetensors", 30000, seed)
		job[1].append("files/train.log", "x\n")
		ordinary("files/train.log")
		published()
		for name in "rank0.pt", "rank1.pt", "model.safetensors":
			verify(back + "/files/" + name)
			ordinary("files/" + name)

# A process of a job that is killed with a file open: what had the name has it still.
job = Job(1)
job[0].create("files/model.pt")
job[0].write("files/model.pt", 1000, 3)
job[0].kill()
published()
assert read(back + "/files/model.pt") == read(mnt + "/files/model.pt") == data(2, 90000)
# With a part of an export.
job = Job(1)
job[0].makedirs("parts")
job[0].text("parts/config.json", "{}")
job[0].file("parts/model-00001-of-00002.safetensors")
wait(lambda: state("parts"))
job[0].kill()
wait(lambda: not state("parts"))
assert set(tree(back + "/parts")) == set(tree(mnt + "/parts")) == {"config.json"}
END2
