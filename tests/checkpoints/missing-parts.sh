#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A checkpoint whose end has begun, and to which what is missing does not come within commit_timeout_s, fails and says
# who is missing; each process of its job is told once. Not one that its job may still end, nor one that is written on.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
cat >"$TEST_TMP/config.json" <<'END'
{"rules": [{"name": "own", "match": ["own-*"], "done": [[{"close": "done"}, {"every_rank": "part-{rank}"}],
	[{"close": "done"}, "next_sibling"]]}]}
END
mount_ckptfs -o "quiet_s=3600,commit_timeout_s=2,config=$TEST_TMP/config.json"
program <<'END'
from presets import *

def told(unit, *words):
	"""Waits until it has failed, for these reasons."""
	failed(unit, "commit_timeout_s")
	message = [f for f in failures() if f["path"] == unit][-1]["message"]
	for word in words:
		assert word in message, message
	code, said = ckptfs("why", mnt + "/" + unit)
	assert words[0] in said, said

def dcp(job, unit, ranks):
	job[0].mkdir(unit)
	for rank in ranks:
		job[rank].file(unit + "/__%d_0.distcp" % rank)
		job[rank].metadata(unit, rank, "__%d.metadata" % rank)

# Each rank ends by a file of its own.
with Job(5) as job:
	dcp(job, "step-1", (0, 2))
	now = state("step-1")
	assert "missing: rank 1, 3 to 4 of 5 (__{rank}.metadata)" in now["waits_for"], now
	assert "commit_timeout_s" in now["waits_for"], now
	told("step-1", "rank 1, 3 to 4 of 5 (__{rank}.metadata)")
	for rank in job: # also who has not written yet
		rank.fails(errno.ETIMEDOUT, "mkdir", "step-2")
	for rank in job.ranks[:4]:
		rank.makedirs("step-2")
		rank.file("step-2/__%d_0.distcp" % rank.rank)
	assert state("step-2")["state"] == "open"
	for rank in job:
		rank.metadata("step-2", rank.rank, "__%d.metadata" % rank.rank)
	committed("step-2", "every rank __{rank}.metadata", None, 5)

# Who has a file open holds up the end as long as he writes to it; not for ever.
with Job(2) as job:
	for unit in "a-1", "b-1":
		job[0].mkdir(unit)
		job[0].file(unit + "/__0_0.distcp")
		job[1].create(unit + "/__1_0.distcp")
		job[1].write(unit + "/__1_0.distcp", 1000, 1)
		job[0].metadata(unit)
	while state("b-1"):
		job[1].write("a-1/__1_0.distcp", 1000, 2)
	told("b-1", "the close of __1_0.distcp (of rank 1)")
	job[1].fails(errno.ETIMEDOUT, "write", "b-1/__1_0.distcp", 1000, 2)
	job[1].close("a-1/__1_0.distcp")
	committed("a-1", "rename .metadata", None, 2)
	job[0].fails(errno.ETIMEDOUT, "mkdir", "c-1")
	for rank in job:
		rank.makedirs("c-1")
	job[0].rmdir("c-1")

# A job that goes on may show that nothing is missing. What was begun later has failed meanwhile.
with Job(2) as job, Job(2) as other:
	for unit in "own-1", "deep/global_step1":
		job[0].makedirs(unit)
		job[0].file(unit + "/part-0")
		job[0].file(unit + "/zero_pp_rank_0_mp_rank_00_optim_states.pt")
	job[0].text("own-1/done", "")
	job[0].text("deep/latest", "global_step1")
	assert "missing: rank 1 of 2" in state("own-1")["waits_for"], state("own-1")
	dcp(other, "late", (0,))
	told("late", "rank 1 of 2")
	assert state("own-1")["state"] == state("deep/global_step1")["state"] == "open"
	job[1].mkdir("own-2")
	job[1].file("own-2/part-1")
	committed("own-1", "close done + next sibling", None, 2)

	# But not one that has gone.
	job[0].text("own-2/done", "")
	assert state("own-2")["state"] == "open"
committed("deep/global_step1", "close ../latest + exited 0", None, 2)
told("own-2", "rank 0 of 2 (part-{rank})", "everybody who wrote it has ended")

# Nothing says that the end of this one is near. A temporary name is none.
with Job(1) as job, Job(2) as other:
	job[0].mkdir("slow")
	job[0].file("slow/__0_0.distcp")
	other[0].mkdir("tmp-checkpoint-5")
	other[0].file("tmp-checkpoint-5/rng_state_0.pth")
	other[1].file("tmp-checkpoint-5/rng_state_1.pth")
	other[0].text("tmp-checkpoint-5/trainer_state.json", "{}")
	told("tmp-checkpoint-5", "the rename to its final name")
	assert state("slow")["state"] == "open"
	job[0].metadata("slow")
	committed("slow", "rename .metadata", None, 1)
END
umount_ckptfs
