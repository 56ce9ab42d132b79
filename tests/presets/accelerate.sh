#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# accelerate's save_state: nothing marks the end. It is shown by the random states of every rank and quiet, by the next
# one, or by the exit of all; an empty directory never is a checkpoint.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *

def save(job, unit, ranks, seed=0):
	job[0].makedirs(unit)
	job[0].file(unit + "/model.safetensors", 80000, seed)
	job[0].file(unit + "/optimizer.bin", 80000, seed)
	job[0].file(unit + "/scheduler.bin", 300, seed)
	for rank in ranks:
		rank.file(unit + "/random_states_%d.pkl" % rank.rank, 3000, seed)

FILES = ["model.safetensors", "optimizer.bin", "scheduler.bin", "random_states_0.pkl", "random_states_1.pkl"]

EXITED = "every rank random_states_{rank}.pkl + exited 0"

with Job(2) as job:
	job[0].makedirs("out/checkpoints/checkpoint_0")
	absent("out/checkpoints/checkpoint_0")
	save(job, "out/checkpoints/checkpoint_0", job.ranks[:1])
	open_for("out/checkpoints/checkpoint_0", "random_states_N.pkl of every rank", "accelerate")
	job[1].file("out/checkpoints/checkpoint_0/random_states_1.pkl")
	open_for("out/checkpoints/checkpoint_0", "a while without writes", "accelerate")
	job[0].mkdir("out/checkpoints/checkpoint_1")
	open_for("out/checkpoints/checkpoint_0", "the next checkpoint beside it")
	save(job, "out/checkpoints/checkpoint_1", job)
	committed("out/checkpoints/checkpoint_0", "every rank random_states_{rank}.pkl + next sibling", FILES, 2)
	open_for("out/checkpoints/checkpoint_1", "a while without writes", "accelerate")
	# It removes the older ones before it writes the next.
	job[0].rmtree("out/checkpoints/checkpoint_0")
	save(job, "out/checkpoints/checkpoint_2", job)
	committed("out/checkpoints/checkpoint_1", "every rank random_states_{rank}.pkl + next sibling", FILES, 2)
	job[1].append("out/log.txt", "2\n")
	ordinary("out/log.txt")
committed("out/checkpoints/checkpoint_2", EXITED, FILES, 2)

# Its first file may come under a name that says nothing, renamed before it is closed, as safetensors writes from 0.8 on.
with Job(2) as job:
	unit = "out/checkpoints/checkpoint_7"
	job[0].makedirs(unit)
	job[0].exclusive(unit + "/.tmpAb3dEf", 5000, 1)
	absent(unit)
	job[0].rename(unit + "/.tmpAb3dEf", unit + "/model.safetensors")
	open_for(unit, "random_states_N.pkl of every rank", "accelerate")
	job[0].through_temp(unit + "/model_1.safetensors")
	for rank in job:
		rank.file(unit + "/random_states_%d.pkl" % rank.rank)
	open_for(unit, "a while without writes", "accelerate")
	# One that shows nothing after all.
	job[0].mkdir("out/step_5")
	job[0].exclusive("out/step_5/.tmpAb3dEf", 5000, 1)
	job[0].rename("out/step_5/.tmpAb3dEf", "out/step_5/readme")
	ordinary("out/step_5/readme")
committed("out/checkpoints/checkpoint_7", EXITED,
	["model.safetensors", "model_1.safetensors", "random_states_0.pkl", "random_states_1.pkl"], 2)

# In place of an older one.
with Job(2) as job:
	old = tree(back + "/out/checkpoints/checkpoint_2")
	save(job, "out/checkpoints/checkpoint_2", job.ranks[:1], 8)
	assert tree(back + "/out/checkpoints/checkpoint_2") == old
	job[1].file("out/checkpoints/checkpoint_2/random_states_1.pkl", 3000, 8)
	assert tree(back + "/out/checkpoints/checkpoint_2") == old
committed("out/checkpoints/checkpoint_2", EXITED, FILES, 2)
assert read(back + "/out/checkpoints/checkpoint_2/random_states_1.pkl") == data(8, 3000)

job = Job(2)
save(job, "out/checkpoints/checkpoint_3", job)
open_for("out/checkpoints/checkpoint_3", "a while without writes", "accelerate")
job[0].exit()
open_for("out/checkpoints/checkpoint_3", "a while without writes", "accelerate")
job[1].kill()
failed("out/checkpoints/checkpoint_3")

# Rank 0 is killed before it has written anything; the other has no more to do, and exits well.
job = Job(2)
job[1].makedirs("out/checkpoints/checkpoint_9")
job[1].file("out/checkpoints/checkpoint_9/random_states_1.pkl")
job[0].kill()
job[1].exit()
open_for("out/checkpoints/checkpoint_9", "random_states_N.pkl of every rank", "accelerate")
assert ckptfs("commit", "--abandon", mnt + "/out/checkpoints/checkpoint_9")[0] == 0

# One that exits with an error has not said that it is done.
job = Job(1)
save(job, "out/checkpoints/checkpoint_4", job)
job[0].exit(3)
failed("out/checkpoints/checkpoint_4", "exit status 3")
END2
umount_ckptfs

where_quiet 1
program <<'END2'
from presets import *

with Job(2) as job:
	job[0].makedirs("checkpoint_0")
	job[0].makedirs("checkpoint_9")
	for rank in job:
		rank.file("checkpoint_0/random_states_%d.pkl" % rank.rank)
	committed("checkpoint_0", "every rank random_states_{rank}.pkl + quiet",
		["random_states_0.pkl", "random_states_1.pkl"], 2)
	# Both have been quiet for long now; but of these more is to come.
	job[0].file("checkpoint_9/random_states_0.pkl")
	job[0].mkdir("step_7")
	job[0].file("marker.txt", 10)
	absent("checkpoint_9")
	absent("step_7")
	job[1].file("checkpoint_9/random_states_1.pkl")
	committed("checkpoint_9", "every rank random_states_{rank}.pkl + quiet")
	absent("step_7")
absent("step_7")
END2
umount_ckptfs
assert_eq "$(cd "$BACK" && echo *)" "checkpoint_0 checkpoint_9 marker.txt" "what is left"
