#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# torch_checkpointing: all ranks write below tmp_NAME, rank 0 adds metadata.pkl, and renames the directory behind a barrier.
# Other directories whose names begin with tmp_ are nobody's.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

FILES = ["metadata.pkl", "model_0.pt", "model_1.pt", "optimizer_0.pt", "optimizer_1.pt"]

def save(job, unit, seed=0):
	"""Up to the rename."""
	for rank in job:
		rank.makedirs(unit)
		for name in "model", "optimizer":
			rank.file("%s/%s_%d.pt" % (unit, name, rank.rank), 60000, seed)
	job[0].file(unit + "/metadata.pkl", 500, seed)

with Job(2) as job:
	job[0].mkdir("run")
	for step in 1, 2:
		save(job, "run/tmp_step-%d" % step, step)
		open_for("run/tmp_step-%d" % step, "the rename to its final name", "torch-checkpointing")
		job[0].rename("run/tmp_step-%d" % step, "run/step-%d" % step)
		committed("run/step-%d" % step, "rename .", FILES, 2)
		absent("run/tmp_step-%d" % step)
	# A rank that is still at work on what is left of an earlier try.
	save(job, "run/tmp_step-3", 3)
	save(job, "run/tmp_step-3", 4)
	job[0].rename("run/tmp_step-3", "run/step-3")
	committed("run/step-3", "rename .", FILES, 2)
	assert read(back + "/run/step-3/model_1.pt") == data(4, 60000)
	# A user's: each file is published by itself.
	for path in "tmp_results/out.pt", "tmp_1/a.pt", "tmp_ckpt/model_100.pt", "tmp_checkpoints/a.pt", "tmp_ckpt_2/a.pt":
		job[0].makedirs(os.path.dirname(path))
		job[0].file(path, 1000)
		published()
		verify(back + "/" + path)
# A run whose directory has such a name, and checkpoints of its own in it.
with Job(1) as job:
	for run in "tmp_ckpt", "tmp_ckpt_3":
		unit = run + "/checkpoint-5"
		job[0].makedirs(unit)
		for name in "config.json", "optimizer.pt", "model.safetensors", "rng_state.pth", "trainer_state.json":
			job[0].file(unit + "/" + name, 1000)
		job[0].mkdir(run + "/checkpoint-6")
		job[0].file(run + "/checkpoint-6/config.json", 1000)
		wait_for(mnt + "/" + unit)

for killed in 0, 1:
	job = Job(2)
	save(job, "run/tmp_step-4")
	open_for("run/tmp_step-4", "the rename to its final name")
	job[killed].kill()
	failed("run/tmp_step-4")
	absent("run/step-4")
	job[1 - killed].exit(1)
assert names(mnt + "/run") == ["step-1", "step-2", "step-3"]
END2
