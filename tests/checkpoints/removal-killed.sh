#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who is killed while he removes a committed checkpoint has not removed it: it is whole again, at once. So has a rank that ends
# with an error; a person's rm that does has removed what it could.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 1
program <<'END2'
from presets import *

FILES = [".metadata", "__0_0.distcp", "__1_0.distcp"]

with Job(2) as job:
	for n in range(4):
		job[0].mkdir("step-%d" % n)
		for rank in job:
			rank.file("step-%d/__%d_0.distcp" % (n, rank.rank), 3000, n, True)
		job[0].metadata("step-%d" % n)
		committed("step-%d" % n, "rename .metadata", FILES, 2)

def undone(unit, how):
	wait(lambda: sorted(os.listdir(mnt + "/" + unit)) == FILES)
	wait(lambda: any(f["path"] == unit for f in failures())) # which is said a moment later
	told = [f["message"] for f in failures() if f["path"] == unit]
	assert len(told) == 1 and "which %s in the middle" % how in told[0], failures()
	whole(unit, "rename .metadata", FILES, 2)

def remove(rank, unit):
	rank.unlink(unit + "/__0_0.distcp")
	rank.unlink(unit + "/.metadata")
	assert os.listdir(mnt + "/" + unit) == ["__1_0.distcp"]

job = Job(2)
remove(job[0], "step-0")
job[0].kill()
undone("step-0", "was killed by signal 9")
remove(job[1], "step-1")
job[1].exit(3)
undone("step-1", "exited with status 3")

person = Rank(session=True)
remove(person, "step-2")
person.kill()
undone("step-2", "was killed by signal 9")
person = Rank(session=True)
remove(person, "step-3")
person.exit(3)
wait(lambda: set(os.listdir(back + "/step-3")) - {".ckptfs-index.json"} == {".ckptfs-commit.json", "__1_0.distcp"})
END2
umount_ckptfs
