#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A job that has removed its last checkpoint, before or after it wrote the next, and is killed before that is committed: who
# restarts finds the last one in the mount, at once. One that has ended well has removed it.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

FILES = [".metadata", "__0_0.distcp", "__1_0.distcp"]

def write(job, unit):
	job[0].makedirs(unit)
	for rank in job:
		rank.file("%s/__%d_0.distcp" % (unit, rank.rank), 30000, rank.rank, True)

def save(job, unit):
	write(job, unit)
	job[0].metadata(unit)
	committed(unit, "rename .metadata")

def back_again(job, unit):
	assert not os.path.exists(mnt + "/" + unit) and os.path.isdir(back + "/" + unit)
	job[1].kill()
	job[0].exit(1)
	wait(lambda: os.path.exists(mnt + "/" + unit))
	whole(unit, "rename .metadata", FILES, 2)
	assert any(f["path"] == unit and "kept as the last good one" in f["message"] for f in failures()), failures()

# After.
job = Job(2)
save(job, "a/step-1")
write(job, "a/step-2")
job[0].rmtree("a/step-1")
back_again(job, "a/step-1")
failed("a/step-2", "is not complete")
assert names(mnt + "/a") == ["step-1"]

# Before.
job = Job(2)
save(job, "b/step-1")
job[0].rmtree("b/step-1")
back_again(job, "b/step-1")

# It was done with it.
with Job(2) as job:
	save(job, "c/step-1")
	job[0].rmtree("c/step-1")
	job[0].exit()
	job[1].text("marker", "1")
	assert not os.path.exists(mnt + "/c/step-1") and os.path.isdir(back + "/c/step-1")
END2
umount_ckptfs
