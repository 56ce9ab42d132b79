#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A job removes all files of its last checkpoint, but not the directory: that is empty in the mount, and whole on the
# backing until the next is committed, beside it or under its own name. If none comes, it is there again.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 1
program <<'END2'
from presets import *

FILES = [".metadata", "__0_0.distcp", "__1_0.distcp"]

def begin(job, unit, seed=0):
	for rank in job:
		rank.file("%s/__%d_0.distcp" % (unit, rank.rank), 3000, seed, True)

def make(job, unit):
	job[0].mkdir(unit)
	begin(job, unit)
	job[0].metadata(unit)
	committed(unit, "rename .metadata", FILES, 2)

def removal(unit):
	return ([r["waits_for"] for r in status()["removals"] if r["path"] == unit] or [""])[0]

def empty(job, unit):
	"""And it has waited long enough for more to be removed."""
	for name in FILES:
		job[name.startswith("__1")].unlink(unit + "/" + name)
	wait(lambda: removal(unit).startswith("the commit of the next checkpoint of its job"))
	assert os.listdir(mnt + "/" + unit) == [], os.listdir(mnt + "/" + unit)

def whole_on_backing(unit):
	assert sorted(set(os.listdir(back + "/" + unit)) - {".ckptfs-index.json"}) == sorted(FILES + [".ckptfs-commit.json"])
	verify(back + "/" + unit)

# Beside it.
job = Job(2)
make(job, "step-1")
empty(job, "step-1")
job[0].mkdir("step-2")
begin(job, "step-2")
whole_on_backing("step-1")
job[0].metadata("step-2")
wait(lambda: os.listdir(back + "/step-1") == [])
committed("step-2", "rename .metadata", FILES, 2)
assert os.listdir(mnt + "/step-1") == []
wait(lambda: status()["removals"] == [])
job[0].rmdir("step-1")
absent("step-1")

# In it; names that it had not before, too.
empty(job, "step-2")
job[0].file("step-2/__0_1.distcp", 3000, 2, True)
begin(job, "step-2", 2)
whole_on_backing("step-2")
job[0].metadata("step-2")
wait(lambda: os.path.exists(back + "/step-2/__0_1.distcp"))
committed("step-2", "rename .metadata", FILES + ["__0_1.distcp"], 2)
job[0].unlink("step-2/__0_1.distcp")
job[1].unlink("step-2/__1_0.distcp")
wait(lambda: not os.path.exists(back + "/step-2/__1_0.distcp"))

# With its directory, after all.
make(job, "step-3")
empty(job, "step-3")
job[1].rmdir("step-3")
assert not os.path.exists(mnt + "/step-3")
whole_on_backing("step-3")
make(job, "step-4")
wait(lambda: not os.path.exists(back + "/step-3"))

# It is killed, after that; or ends, and has a newer one.
empty(job, "step-4")
job[0].file("step-4/notes", 3000, 1)
for rank in job:
	rank.kill()
wait(lambda: os.path.isdir(mnt + "/step-4") and sorted(os.listdir(mnt + "/step-4")) == FILES)
whole("step-4", "rename .metadata", FILES, 2)
job = Job(2)
make(job, "step-5")
make(job, "step-6")
empty(job, "step-5")
for rank in job:
	rank.exit()
wait(lambda: os.listdir(back + "/step-5") == [])
whole("step-6", "rename .metadata", FILES, 2)
END2
umount_ckptfs
assert_eq "$(find "$BACK" -maxdepth 1 -name '.ckptfs-trash*')" "" "what is left"
