#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# torch.distributed.checkpoint, and torchtitan, whose names are its own: every rank writes its file, and rank 0, which has
# heard of all, renames .metadata. That is the end, and nothing before it is.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

FILES = [".metadata", "__0_0.distcp", "__1_0.distcp"]

def save_shards(job, unit, seed):
	for rank in job:
		rank.file("%s/__%d_0.distcp" % (unit, rank.rank), 300000, seed + rank.rank, True)

with Job(2) as job:
	job[0].makedirs("run/logs")
	job[0].text("run/config.yaml", "lr: 1")
	ordinary("run/config.yaml")
	for unit, rule in ("run/out", "torch-dcp"), ("run/step-10", "torchtitan"):
		job[0].mkdir(unit)
		save_shards(job, unit, 1)
		open_for(unit, "the rename to .metadata", rule)
		job[0].file(unit + "/.metadata.tmp", 1400, 9, True)
		open_for(unit, "the rename to .metadata", rule)
		job[0].rename(unit + "/.metadata.tmp", unit + "/.metadata")
		was = committed(unit, "rename .metadata", FILES, 2)
		assert {f["path"]: f["rank"] for f in was["files"]} == dict(zip(FILES, (0, 0, 1))), was["files"]
		job[1].text("run/logs/events", unit)
		ordinary("run/logs/events")

	# The same tag once more: in place, file by file, while the old one stays what it is.
	old = tree(back + "/run/step-10")
	save_shards(job, "run/step-10", 5)
	assert state("run/step-10")["state"] == "open" and tree(back + "/run/step-10") == old
	job[0].metadata("run/step-10", 7)
	was = committed("run/step-10", "rename .metadata", FILES, 2)
	assert read(back + "/run/step-10/__1_0.distcp") == data(6, 300000) and was["sequence"] == 3, was

	# Renamed while a late file is in it that is not committed yet.
	job[1].text("run/step-10/late.json", "{}")
	job[0].mkdir("elsewhere")
	job[0].text("elsewhere/note", "1")
	job[0].rename("run/step-10", "elsewhere/step-11")
	for top in mnt, back:
		assert not os.path.exists(top + "/run/step-10"), top
	assert sorted(tree(mnt + "/elsewhere/step-11")) == sorted(FILES + ["late.json"])
	whole_on_backing = tree(back + "/elsewhere/step-11")
	assert sorted(name for name in whole_on_backing if not name.startswith(".ckptfs")) == FILES, whole_on_backing
	assert ckptfs("commit", mnt + "/elsewhere/step-11")[0] == 0
	committed("elsewhere/step-11", "asked", FILES + ["late.json"])

	# A directory that has something else already keeps it.
	os.mkdir(mnt + "/run7")
	job[0].text("run7/config.yaml", "lr: 2")
	ordinary("run7/config.yaml")
	save_shards(job, "run7", 1)
	assert os.listdir(back + "/run7") == ["config.yaml"]
	job[0].metadata("run7")
	committed("run7", "rename .metadata", FILES + ["config.yaml"])

	# Without collectives each has a file like that.
	job[0].mkdir("alone")
	for rank in job:
		rank.file("alone/__%d_0.distcp" % rank.rank)
		open_for("alone", "__N.metadata of every rank", "torch-dcp")
		rank.metadata("alone", rank.rank, "__%d.metadata" % rank.rank)
	committed("alone", "every rank __{rank}.metadata",
		["__0.metadata", "__0_0.distcp", "__1.metadata", "__1_0.distcp"], 2)

# In a world of one more may come.
with Job(1) as job:
	job[0].mkdir("one")
	job[0].file("one/__0_0.distcp")
	job[0].metadata("one", 0, "__0.metadata")
	open_for("one", "a while without writes", "torch-dcp")

# Rank 1 is killed between two files.
job = Job(2)
job[0].mkdir("killed")
job[0].file("killed/__0_0.distcp")
job[1].file("killed/__1_0.distcp")
open_for("killed", "the rename to .metadata")
job[1].kill()
failed("killed")
job[0].exit(1)

# And while it saves the same tag once more: what was committed is left.
job = Job(2)
assert tree(mnt + "/alone")["__1_0.distcp"] == data(0, 3000)
save_shards(job, "alone", 3)
job[1].kill()
wait(lambda: not state("alone"))
job[0].exit(1)
whole("alone", "every rank __{rank}.metadata")
with Job(2) as job:
	job[0].mkdir("killed")
	save_shards(job, "killed", 1)
	job[0].metadata("killed")
	committed("killed", "rename .metadata", FILES, 2)
END2
