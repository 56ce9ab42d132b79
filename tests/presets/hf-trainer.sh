#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Trainer of transformers: rank 0 closes trainer_state.json, and waits for nobody, so with several ranks the state of
# the random numbers of each is wanted. What others leave inside, DeepSpeed or torch.distributed.checkpoint, ends nothing.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

RNG = "every rank rng_state_{rank}.pth"
EVERY = "close trainer_state.json + " + RNG

def save_model(job, unit, seed=0):
	job[0].makedirs(unit)
	job[0].text(unit + "/config.json", "{}")
	for i in 1, 2:
		job[0].file(unit + "/model-%05d-of-00002.safetensors" % i, 60000, seed)
	job[0].file(unit + "/model.safetensors.index.json", 100, seed)
	job[0].file(unit + "/training_args.bin")

def save_states(job, unit, seed=0):
	job[0].file(unit + "/optimizer.pt", 90000, seed)
	job[0].file(unit + "/scheduler.pt", 1000, seed)

FILES = ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
	"model.safetensors.index.json", "training_args.bin", "optimizer.pt", "scheduler.pt", "trainer_state.json"]

# Four ranks, of which the last is slow.
with Job(4) as job:
	unit = "out/checkpoint-5"
	save_model(job, unit)
	assert os.listdir(back + "/out") == [name for name in os.listdir(back + "/out") if name.startswith(".ckptfs-")]
	save_states(job, unit)
	for rank in job.ranks[:3]:
		rank.file(unit + "/rng_state_%d.pth" % rank.rank)
	open_for(unit, "the close of trainer_state.json", "hf-trainer")
	job[0].text(unit + "/trainer_state.json", "{}")
	open_for(unit, "rng_state_N.pth of every rank", "hf-trainer")
	job[3].create(unit + "/rng_state_3.pth")
	open_for(unit, "rng_state_N.pth of every rank", "hf-trainer")
	job[3].write(unit + "/rng_state_3.pth", 3000, 3)
	job[3].close(unit + "/rng_state_3.pth")
	committed(unit, EVERY, FILES + ["rng_state_%d.pth" % rank for rank in range(4)], 4)

	# The next one shows it, too, where a file is not to be expected of every rank; a late file in an older one does not.
	for unit in "out/checkpoint-10", "out/checkpoint-15":
		save_model(job, unit)
	open_for("out/checkpoint-10", "the close of trainer_state.json")
	job[0].text("out/checkpoint-15/trainer_state.json", "{}")
	job[1].text("out/checkpoint-5/late.json", "{}")
	open_for("out/checkpoint-15", "the next checkpoint beside it")
	job[0].text("out/checkpoint-10/trainer_state.json", "{}")
	committed("out/checkpoint-10", "close trainer_state.json + next sibling")
	assert "late.json" not in tree(back + "/out/checkpoint-5")
	job[0].text("out/log.txt", "15")
	ordinary("out/log.txt")
committed("out/checkpoint-15", "close trainer_state.json + exited 0")

# With DeepSpeed inside, whose latest is inside as well; and with FSDP, which has two .metadata.
with Job(2) as job:
	unit = "deep/checkpoint-5"
	save_model(job, unit)
	job[0].mkdir(unit + "/global_step5")
	for rank in job:
		rank.file(unit + "/global_step5/zero_pp_rank_%d_mp_rank_00_optim_states.pt" % rank.rank)
	job[0].text(unit + "/latest", "global_step5")
	for rank in job:
		rank.file(unit + "/rng_state_%d.pth" % rank.rank)
	open_for(unit, "the close of trainer_state.json", "hf-trainer")
	assert not any(g.get("rule") and g["path"].startswith(unit + "/") for g in status()["pending"]), "a unit in one"
	job[0].text(unit + "/trainer_state.json", "{}")
	committed(unit, EVERY, None, 2)
	assert "global_step5/zero_pp_rank_1_mp_rank_00_optim_states.pt" in tree(back + "/" + unit)

	unit = "fsdp/checkpoint-5"
	job[0].makedirs(unit)
	for inner in "pytorch_model_fsdp_0", "optimizer_0":
		job[0].mkdir(unit + "/" + inner)
		for rank in job:
			rank.file("%s/%s/__%d_0.distcp" % (unit, inner, rank.rank), 50000, rank.rank, True)
		job[0].metadata(unit + "/" + inner)
		open_for(unit, "the close of trainer_state.json", "hf-trainer")
	for rank in job:
		rank.file(unit + "/rng_state_%d.pth" % rank.rank)
	job[0].text(unit + "/trainer_state.json", "{}")
	committed(unit, EVERY, None, 2)
	assert "optimizer_0/.metadata" in tree(back + "/" + unit)

	# It once wrote to a temporary name, under which nothing ends.
	unit = "out/tmp-checkpoint-20"
	save_model(job, unit)
	for rank in job:
		rank.file(unit + "/rng_state_%d.pth" % rank.rank)
	job[0].text(unit + "/trainer_state.json", "{}")
	open_for(unit, "the rename to its final name", "hf-trainer")
	job[0].rename(unit, "out/checkpoint-20")
	committed("out/checkpoint-20", EVERY, None, 2)
	absent(unit)
	assert names(mnt + "/out") == sorted(["checkpoint-%d" % n for n in (5, 10, 15, 20)] + ["log.txt"]), names(mnt + "/out")

# Killed between two files. What was there before is what a restarted job finds, and it may use the name.
job = Job(2)
save_model(job, "out/checkpoint-25")
job[1].file("out/checkpoint-25/rng_state_1.pth")
job[1].kill()
failed("out/checkpoint-25")
job[0].exit(1)
with Job(2) as job:
	save_model(job, "out/checkpoint-25", 4)
	for rank in job:
		rank.file("out/checkpoint-25/rng_state_%d.pth" % rank.rank)
	job[0].text("out/checkpoint-25/trainer_state.json", "{}")
	was = committed("out/checkpoint-25", EVERY, None, 2)
	assert "optimizer.pt" not in tree(back + "/out/checkpoint-25")
	# And again, over what is committed.
	save_model(job, "out/checkpoint-25", 5)
	save_states(job, "out/checkpoint-25", 5)
	for rank in job:
		rank.file("out/checkpoint-25/rng_state_%d.pth" % rank.rank, 3000, 5)
	assert "optimizer.pt" not in tree(back + "/out/checkpoint-25")
	job[0].text("out/checkpoint-25/trainer_state.json", "{}")
	again = committed("out/checkpoint-25", EVERY, FILES + ["rng_state_0.pth", "rng_state_1.pth"], 2)
	assert again["generation"] != was["generation"] and again["sequence"] > was["sequence"]
	assert read(back + "/out/checkpoint-25/rng_state_1.pth") == data(5, 3000)
END2
umount_ckptfs

# A world of one, whose random numbers have no rank in their name: more may come, until it is quiet.
where_quiet 3600
program <<'END2'
from presets import *

with Job(1) as job:
	job[0].makedirs("one/checkpoint-5")
	job[0].file("one/checkpoint-5/model.safetensors")
	job[0].text("one/checkpoint-5/trainer_state.json", "{}")
	open_for("one/checkpoint-5", "a while without writes", "hf-trainer")
	job[0].file("one/checkpoint-5/rng_state.pth")
	open_for("one/checkpoint-5", "a while without writes", "hf-trainer")
	job[0].makedirs("one/checkpoint-10")
	job[0].file("one/checkpoint-10/model.safetensors")
	committed("one/checkpoint-5", "close trainer_state.json + next sibling",
		["model.safetensors", "rng_state.pth", "trainer_state.json"], 1)
	job[0].text("one/checkpoint-10/trainer_state.json", "{}")
committed("one/checkpoint-10", "close trainer_state.json + exited 0", ["model.safetensors", "trainer_state.json"], 1)
END2
umount_ckptfs
where_quiet 1
program <<'END2'
from presets import *

with Job(1) as job:
	job[0].makedirs("one/checkpoint-5")
	job[0].file("one/checkpoint-5/model.safetensors")
	job[0].text("one/checkpoint-5/trainer_state.json", "{}")
	committed("one/checkpoint-5", "close trainer_state.json + all closed + quiet + lone",
		["model.safetensors", "trainer_state.json"], 1)
END2
