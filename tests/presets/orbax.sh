#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Orbax: every host writes below a temporary name, which may have others in it; the rename of the directory is the end. Or,
# without renames, the file commit_success.txt.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

TEMP = ".orbax-checkpoint-tmp-1700000000"
FILES = ["_CHECKPOINT_METADATA", "commit_success.txt", "default/_METADATA", "default/_sharding", "default/manifest.ocdbt",
	"default/ocdbt.process_0/d/0a1b", "default/ocdbt.process_0/manifest.ocdbt",
	"default/ocdbt.process_1/d/0a1b", "default/ocdbt.process_1/manifest.ocdbt"]

def locked(rank, path, seed):
	"""As TensorStore's file driver writes a value."""
	rank.file(path + ".__lock", 20000, seed, True)
	rank.rename(path + ".__lock", path)

def save_item(job, item, seed):
	for rank in job:
		rank.makedirs("%s/ocdbt.process_%d/d" % (item, rank.rank))
		locked(rank, "%s/ocdbt.process_%d/d/0a1b" % (item, rank.rank), seed)
		locked(rank, "%s/ocdbt.process_%d/manifest.ocdbt" % (item, rank.rank), seed)
	locked(job[0], item + "/manifest.ocdbt", seed)
	job[0].text(item + "/_METADATA", "{}")
	job[0].text(item + "/_sharding", "{}")

def save(job, unit, seed=0, nested=True):
	"""Up to the rename, of the directory that has the unit's name in the end."""
	item = unit + "/default" + (TEMP if nested else "")
	job[0].mkdir(unit)
	job[0].mkdir(item)
	save_item(job, item, seed)
	if nested:
		job[0].rename(item, unit + "/default")
	job[0].text(unit + "/_CHECKPOINT_METADATA", "{}")

with Job(2) as job:
	job[0].mkdir("ckpt")
	job[0].text("ckpt/_ROOT_METADATA", "{}")
	ordinary("ckpt/_ROOT_METADATA")
	save(job, "ckpt/7" + TEMP)
	job[0].text("ckpt/7" + TEMP + "/commit_success.txt", "done")
	open_for("ckpt/7" + TEMP, "the rename to its final name", "orbax")
	job[0].rename("ckpt/7" + TEMP, "ckpt/7")
	committed("ckpt/7", "rename .", FILES, 2)
	absent("ckpt/7" + TEMP)
	assert names(mnt + "/ckpt") == ["7", "_ROOT_METADATA"]

	# Without the rename.
	save(job, "ckpt/8", 1, False)
	open_for("ckpt/8", "the close of commit_success.txt", "orbax-in-place")
	job[0].text("ckpt/8/commit_success.txt", "done")
	committed("ckpt/8", "close commit_success.txt", FILES, 2)

	# The same step once more: the old one goes first.
	job[0].rmtree("ckpt/7")
	save(job, "ckpt/7" + TEMP, 5)
	open_for("ckpt/7" + TEMP, "the rename to its final name", "orbax")
	job[0].rename("ckpt/7" + TEMP, "ckpt/7")
	committed("ckpt/7", "rename .", [name for name in FILES if name != "commit_success.txt"], 2)
	assert read(back + "/ckpt/7/default/ocdbt.process_1/d/0a1b") == data(5, 20000)

for killed in 0, 1:
	job = Job(2)
	save(job, "ckpt/9" + TEMP)
	open_for("ckpt/9" + TEMP, "the rename to its final name")
	job[killed].kill()
	failed("ckpt/9" + TEMP)
	absent("ckpt/9")
	job[1 - killed].exit(1)
assert names(mnt + "/ckpt") == ["7", "8", "_ROOT_METADATA"]
END2
