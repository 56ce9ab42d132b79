#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a job has rotated away after its last commit leaves the backing when it ends, or at umount, since a newer one is there;
# the last good one stays.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

def save(job, unit):
	job[0].makedirs(unit)
	for rank in job:
		rank.file("%s/__%d_0.distcp" % (unit, rank.rank), 30000, rank.rank, True)
	job[0].metadata(unit)
	committed(unit, "rename .metadata")

def seen():
	return sorted(name for name in os.listdir(back) if not name.startswith(".ckptfs"))

with Job(2) as job:
	for n in range(5):
		save(job, "step-%d" % n)
	job[0].rmtree("step-0")
	job[1].rmtree("step-1")
	assert seen() == ["step-%d" % n for n in range(5)], seen()
	job[0].exit()
	wait(lambda: seen() == ["step-%d" % n for n in range(1, 5)])
wait(lambda: seen() == ["step-2", "step-3", "step-4"])

job = Job(2)
job[0].rmtree("step-2")
job[0].rmtree("step-4")
job[0].rmtree("step-3")
assert seen() == ["step-2", "step-3", "step-4"] and names() == []
for rank in job:
	rank.chdir("/")
code, told = ckptfs("umount", mnt)
assert code == 0, told
assert seen() == ["step-4"], seen()
verify(back + "/step-4")
assert staging() == [], staging()
END2
