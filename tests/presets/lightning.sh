#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Lightning: a *.ckpt is a file, copied or renamed into its place; or a directory, by torch.distributed.checkpoint, which
# meta.pt ends, or by DeepSpeed, whose latest lies inside.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

with Job(2) as job:
	job[0].makedirs("logs/version_0")
	job[0].text("logs/version_0/hparams.yaml", "lr: 1")
	ordinary("logs/version_0/hparams.yaml")
	job[0].mkdir("logs/version_0/checkpoints")

	# Rank 0 alone; last.ckpt is a copy, and then a link.
	unit = "logs/version_0/checkpoints/epoch=0-step=10.ckpt"
	job[0].create(unit)
	job[0].write(unit, 200000, 1)
	absent(unit)
	job[0].close(unit)
	wait_for(mnt + "/" + unit)
	verify(back + "/" + unit)
	assert read(back + "/" + unit) == data(1, 200000)
	for seed in 1, 2:
		job[0].file("logs/version_0/checkpoints/last.ckpt", 100000, seed)
		wait_for(mnt + "/logs/version_0/checkpoints/last.ckpt")
		assert read(back + "/logs/version_0/checkpoints/last.ckpt") == data(seed, 100000)
	job[0].symlink("epoch=0-step=10.ckpt", "logs/version_0/checkpoints/best.ckpt")

	# Sharded: .metadata, which all have waited for, is not yet the end.
	unit = "logs/version_0/checkpoints/epoch=1-step=20.ckpt"
	job[0].mkdir(unit)
	absent(unit)
	for rank in job:
		rank.file("%s/__%d_0.distcp" % (unit, rank.rank), 60000, rank.rank, True)
	job[0].metadata(unit)
	open_for(unit, "the close of meta.pt", "lightning")
	job[0].file(unit + "/meta.pt")
	committed(unit, "close meta.pt", [".metadata", "__0_0.distcp", "__1_0.distcp", "meta.pt"], 2)

	# Where TMPDIR lies in the mount, meta.pt comes from there.
	unit = "logs/version_0/checkpoints/epoch=2-step=30.ckpt"
	job[0].makedirs("tmp")
	job[0].mkdir(unit)
	for rank in job:
		rank.file("%s/__%d_0.distcp" % (unit, rank.rank), 60000, rank.rank, True)
	job[0].metadata(unit)
	job[0].file("tmp/tmpabcdefgh")
	open_for(unit, "meta.pt", "lightning")
	job[0].rename("tmp/tmpabcdefgh", unit + "/meta.pt")
	committed(unit, "close meta.pt", [".metadata", "__0_0.distcp", "__1_0.distcp", "meta.pt"], 2)

	# DeepSpeed, whose tag is always the same.
	unit = "logs/version_0/checkpoints/deep.ckpt"
	optim = unit + "/checkpoint/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt"
	for seed in 0, 1:
		before = tree(back + "/" + unit)
		job[0].makedirs(unit + "/checkpoint")
		job[0].file(unit + "/checkpoint/mp_rank_00_model_states.pt", 3000, seed)
		job[0].file(optim % 0, 3000, seed)
		job[0].text(unit + "/latest", "checkpoint")
		now = state(unit)
		assert "checkpoint/*optim_states.pt of every rank" in now["waits_for"] and now["rule"] == "lightning", now
		after = tree(back + "/" + unit)
		assert after == before, (seed, sorted(before), sorted(after), [name for name in before if after.get(name) != before[name]])
		job[1].file(optim % 1, 3000, seed)
		committed(unit, "close latest + every rank checkpoint/*optim_states.pt", None, 2)
		assert read(back + "/" + optim % 1) == data(seed, 3000)

job = Job(2)
unit = "logs/version_0/checkpoints/epoch=3-step=40.ckpt"
job[0].mkdir(unit)
for rank in job:
	rank.file("%s/__%d_0.distcp" % (unit, rank.rank))
open_for(unit, "the close of meta.pt", "lightning")
job[0].kill()
failed(unit)
job[1].exit(1)
END2
