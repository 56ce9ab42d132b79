#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# DeepSpeed: no barrier precedes the close of latest, so it is the end only with an optimizer file of every rank, with the
# next tag, or with the exit of all.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

OPTIM = "%s/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt"
MODEL = "%s/mp_rank_00_model_states.pt"
EVERY = "close ../latest + every rank *optim_states.pt"

# ZeRO 2: the last rank is slow, and rank 0 does not wait for it.
with Job(4) as job:
	job[0].mkdir("save")
	job[0].text("save/args.json", "{}")
	ordinary("save/args.json")
	job[0].mkdir("save/global_step10")
	job[0].file(MODEL % "save/global_step10", 500000)
	for rank in job.ranks[:3]:
		rank.file(OPTIM % ("save/global_step10", rank.rank))
	job[0].file("save/global_step10/zero_to_fp32.py")
	open_for("save/global_step10", "the close of latest beside it", "deepspeed")
	job[3].create(OPTIM % ("save/global_step10", 3))
	job[3].write(OPTIM % ("save/global_step10", 3), 100000, 3)
	job[0].text("save/latest", "global_step10")
	open_for("save/global_step10", "*optim_states.pt of every rank", "deepspeed")
	job[3].close(OPTIM % ("save/global_step10", 3))
	committed("save/global_step10", EVERY, [OPTIM[3:] % rank for rank in range(4)] +
		["mp_rank_00_model_states.pt", "zero_to_fp32.py"], 4)

	# latest of another tag is none of this one's.
	job[0].mkdir("save/global_step20")
	for rank in job:
		rank.file(OPTIM % ("save/global_step20", rank.rank))
	job[0].text("save/latest", "global_step2")
	open_for("save/global_step20", "the close of latest beside it")
	job[0].text("save/latest", "global_step20\n")
	committed("save/global_step20", EVERY, [OPTIM[3:] % rank for rank in range(4)], 4)

	# The same tag once more, of which rank 0 says at once that it is the newest.
	old = tree(back + "/save/global_step20")
	job[0].file(OPTIM % ("save/global_step20", 0), 3000, 7)
	job[0].text("save/latest", "global_step20")
	for rank in job.ranks[1:]:
		assert "*optim_states.pt of every rank" in state("save/global_step20")["waits_for"]
		assert tree(back + "/save/global_step20") == old
		rank.file(OPTIM % ("save/global_step20", rank.rank), 3000, 7)
	committed("save/global_step20", EVERY, [OPTIM[3:] % rank for rank in range(4)], 4)
	assert set(tree(back + "/save/global_step20").values()) >= {data(7, 3000)}

# Stage 0: rank 0 alone writes. Whoever begins the next tag has passed the barrier behind latest; and who exits well.
with Job(2) as job:
	job[0].makedirs("zero/a")
	job[0].file(MODEL % "zero/a")
	job[0].text("zero/latest", "a")
	open_for("zero/a", "the next checkpoint beside it", "deepspeed")
	job[0].mkdir("zero/b")
	open_for("zero/a", "the next checkpoint beside it")
	job[0].file(MODEL % "zero/b")
	committed("zero/a", "close ../latest + next sibling", ["mp_rank_00_model_states.pt"], 2)
	open_for("zero/b", "the close of latest beside it")
	job[0].text("zero/latest", "b")
	# A late file in the older one is not the next.
	job[0].file("zero/a/zero_to_fp32.py")
	open_for("zero/b", "the next checkpoint beside it")
committed("zero/b", "close ../latest + exited 0", ["mp_rank_00_model_states.pt"], 2)

# A rank is killed when latest names the tag already.
job = Job(2)
job[0].mkdir("save/global_step30")
job[0].file(OPTIM % ("save/global_step30", 0))
job[1].create(OPTIM % ("save/global_step30", 1))
job[1].write(OPTIM % ("save/global_step30", 1), 3000, 1)
job[0].text("save/latest", "global_step30")
open_for("save/global_step30", "*optim_states.pt of every rank")
job[1].kill()
failed("save/global_step30")
job[0].exit(1)
# Or before that, and rank 0 goes on as far as the barrier.
job = Job(2)
job[0].mkdir("save/global_step35")
job[0].file(OPTIM % ("save/global_step35", 0))
job[1].file(OPTIM % ("save/global_step35", 1))
open_for("save/global_step35", "the close of latest beside it")
job[1].kill()
failed("save/global_step35")
job[0].text("save/latest", "global_step35")
job[0].exit(1)
told = lambda: sum(one["count"] for one in failures() if one["op"] == "pointer")
wait(lambda: told() == 2 or read(back + "/save/latest") != b"global_step20")
for top in mnt, back:
	assert read(top + "/save/latest") == b"global_step20", read(top + "/save/latest")
# The job goes on with fewer ranks, and comes to that tag: nothing of the others' is in it.
with Job(1) as job:
	job[0].mkdir("save/global_step30")
	job[0].file(MODEL % "save/global_step30")
	job[0].text("save/latest", "global_step30")
committed("save/global_step30", "close ../latest + exited 0", ["mp_rank_00_model_states.pt"], 1)
# Rank 0 is, while it writes that.
job = Job(1)
job[0].mkdir("save/global_step40")
job[0].file(OPTIM % ("save/global_step40", 0))
job[0].create("save/latest")
os.write(os.open(mnt + "/save/latest", os.O_WRONLY), b"global_step40")
job[0].kill()
failed("save/global_step40")
END2
