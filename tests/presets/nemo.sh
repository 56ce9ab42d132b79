#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# NeMo: the file NAME-unfinished is there before the data, and its removal, behind a barrier, is the end.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

def save(job, unit, seed=0):
	job[0].makedirs(unit + "/weights")
	for rank in job:
		rank.file("%s/weights/__%d_0.distcp" % (unit, rank.rank), 40000, seed, True)
	job[0].metadata(unit + "/weights", seed)
	job[0].makedirs(unit + "/context")
	job[0].text(unit + "/context/model.yaml", str(seed))

FILES = ["context/model.yaml", "weights/.metadata", "weights/__0_0.distcp", "weights/__1_0.distcp"]

with Job(2) as job:
	job[0].makedirs("results/checkpoints")
	for unit, marker, done in (
			("model--step=10", "model--step=10", "{name}"),
			("model--step=20.ckpt", "model--step=20", "{name%.ckpt}"),
			("model--step=30-EMA", "model--step=30", "{name%-EMA}"),
			("model--step=40-EMA.ckpt", "model--step=40", "{name%-EMA.ckpt}")):
		unit, marker = "results/checkpoints/" + unit, "results/checkpoints/" + marker + "-unfinished"
		job[0].text(marker, "")
		ordinary(marker)
		save(job, unit)
		open_for(unit, "the removal of ", "nemo")
		job[1].unlink(marker)
		committed(unit, "unlink ../%s-unfinished" % done, FILES, 2)
		assert not os.path.lexists(back + "/" + marker)

	# The weights and their average have one marker; that of another ends neither.
	for name in "a", "b":
		job[0].text("results/%s-unfinished" % name, "")
	for unit in "results/a", "results/a-EMA":
		save(job, unit)
	job[0].unlink("results/b-unfinished")
	for unit in "results/a", "results/a-EMA":
		open_for(unit, "the removal of ", "nemo")
	job[0].unlink("results/a-unfinished")
	for unit, done in ("results/a", "{name}"), ("results/a-EMA", "{name%-EMA}"):
		committed(unit, "unlink ../%s-unfinished" % done, FILES, 2)

	# The same name once more.
	old = tree(back + "/results/a")
	job[0].text("results/a-unfinished", "")
	save(job, "results/a", 6)
	assert tree(back + "/results/a") == old
	job[0].unlink("results/a-unfinished")
	committed("results/a", "unlink ../{name}-unfinished", FILES, 2)
	assert read(back + "/results/a/weights/__1_0.distcp") == data(6, 40000)

job = Job(2)
job[0].text("results/c-unfinished", "")
save(job, "results/c")
open_for("results/c", "the removal of ", "nemo")
job[1].kill()
failed("results/c")
job[0].exit(1)
assert os.path.exists(back + "/results/c-unfinished")
END2
