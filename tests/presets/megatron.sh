#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Megatron: in its own format and in that of torch.distributed, whose .metadata does not suffice: the end is the close of
# the tracker file, behind a barrier, that names the iteration.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

TRACKER = "save/latest_checkpointed_iteration.txt"
DONE = "close ../latest_checkpointed_iteration.txt"

def save_torch_dist(job, unit, seed=0):
	job[0].mkdir(unit)
	for rank in job:
		for i in range(2):
			rank.file("%s/__%d_%d.distcp" % (unit, rank.rank, i), 50000, seed, True)
	job[0].metadata(unit, seed)
	job[0].text(unit + "/metadata.json", "{}")

with Job(2) as job:
	job[0].mkdir("save")
	save_torch_dist(job, "save/iter_0000010")
	open_for("save/iter_0000010", "the close of latest_checkpointed_iteration.txt beside it", "megatron")
	job[0].text(TRACKER, "1")
	open_for("save/iter_0000010", "the close of latest_checkpointed_iteration.txt beside it", "megatron")
	job[0].text(TRACKER, "10")
	committed("save/iter_0000010", DONE, [".metadata", "metadata.json"] +
		["__%d_%d.distcp" % (rank, i) for rank in range(2) for i in range(2)], 2)
	job[0].append("save/progress.txt", "10\n")
	ordinary("save/progress.txt")

	# Its own format: one file of each model-parallel rank.
	for unit, says in ("save/iter_0000020", "20"), ("save/release", "release"):
		job[0].mkdir(unit)
		for rank in job:
			rank.makedirs("%s/mp_rank_%02d" % (unit, rank.rank))
			rank.file("%s/mp_rank_%02d/model_optim_rng.pt" % (unit, rank.rank), 70000, rank.rank)
		open_for(unit, "the close of latest_checkpointed_iteration.txt beside it", "megatron")
		job[0].text(TRACKER, says)
		committed(unit, DONE, ["mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt"], 2)

	# The same iteration once more, after it was removed.
	job[0].rmtree("save/iter_0000020")
	save_torch_dist(job, "save/iter_0000020", 5)
	job[0].text(TRACKER, "20")
	committed("save/iter_0000020", DONE, [".metadata", "metadata.json"] +
		["__%d_%d.distcp" % (rank, i) for rank in range(2) for i in range(2)], 2)

# A path of which no part is there yet: what is above a unit is ordinary, and no unit.
job = Job(2)
job[0].makedirs("new/run/iter_0000001/mp_rank_00")
assert os.path.isdir(back + "/new/run")
absent("new/run/iter_0000001")
job[0].file("new/run/iter_0000001/mp_rank_00/model_optim_rng.pt")
open_for("new/run/iter_0000001", "the close of latest_checkpointed_iteration.txt beside it", "megatron")
job[1].makedirs("new/run/iter_0000001/mp_rank_01")
job[1].file("new/run/iter_0000001/mp_rank_01/model_optim_rng.pt")
job[0].kill()
failed("new/run/iter_0000001")
job[1].exit(1)
END2
