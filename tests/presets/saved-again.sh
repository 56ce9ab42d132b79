#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Changes to committed checkpoints, by the jobs that saved them and by others: late files and files that are rewritten are
# committed at the last close and some silence; the same name saved once more wants all of its evidence again, whatever
# it begins with and however long it takes.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 1
program <<'END2'
from presets import *

SILENCE = "the close of every file and a while without writes"
OPTIM = "%s/bf16_zero_pp_rank_%d_mp_rank_00_optim_states.pt"
EVERY = "close ../latest + every rank *optim_states.pt"
HF = "close trainer_state.json + every rank rng_state_{rank}.pth"

def is_some(unit):
	"""It is a change to some of it, for which silence is the end."""
	assert SILENCE in state(unit)["waits_for"], state(unit)

def is_late(unit):
	is_some(unit)
	committed(unit, "last close")

def is_anew(unit, missing, old):
	"""It is being saved once more, and waits for that evidence."""
	assert missing in state(unit)["waits_for"], state(unit)
	assert tree(back + "/" + unit) == old

_clock = Rank(session=True)
_clock.mkdir("clock")
_clock.file("clock/__0_0.distcp")
_clock.metadata("clock")
committed("clock", "rename .metadata")

def time_passes():
	"""More silence than would be an end."""
	_clock.append("clock/late", "1")
	committed("clock", "last close")

def save_hf(job, unit, seed, temp=True):
	job[0].makedirs(unit)
	job[0].text(unit + "/config.json", "{%d}" % seed)
	(job[0].through_temp if temp else job[0].file)(unit + "/model.safetensors", 9000, seed)
	job[0].file(unit + "/optimizer.pt", 9000, seed)
	for rank in job:
		rank.file("%s/rng_state_%d.pth" % (unit, rank.rank), 900, seed)
	job[0].text(unit + "/trainer_state.json", "{%d}" % seed)

# Hugging Face: a rank that was slow, files for people, and the state that is written once more.
with Job(2) as job:
	unit = "out/checkpoint-5"
	save_hf(job, unit, 1)
	committed(unit, HF)
	job[1].file(unit + "/rng_state_7.pth")
	is_some(unit)
	job[0].text(unit + "/README.md", "late")
	is_some(unit)
	job[0].text(unit + "/trainer_state.json", "{2}")
	is_some(unit)
	job[1].refill(unit + "/optimizer.pt", 10, 100, 3)
	is_late(unit)

	# The same once more: what comes first might be anything.
	old = tree(back + "/" + unit)
	job[0].text(unit + "/config.json", "{3}")
	is_some(unit)
	job[0].through_temp(unit + "/model.safetensors", 9000, 3)
	is_anew(unit, "the close of trainer_state.json", old)
	time_passes()
	job[0].file(unit + "/optimizer.pt", 9000, 3)
	job[0].text(unit + "/trainer_state.json", "{3}")
	is_anew(unit, "rng_state_N.pth of every rank", old)
	for rank in job:
		is_anew(unit, "rng_state_N.pth of every rank", old)
		rank.file("%s/rng_state_%d.pth" % (unit, rank.rank), 900, 3)
	committed(unit, HF)
	assert tree(back + "/" + unit)["model.safetensors"] != old["model.safetensors"]

# The next job comes to the same step.
with Job(2) as job:
	old = tree(back + "/" + unit)
	job[1].file(unit + "/scheduler.pt", 900, 4)
	is_anew(unit, "the close of trainer_state.json", old)
	save_hf(job, unit, 4, False)
	committed(unit, HF)

# DeepSpeed: the same tag by a job of more ranks, of which the last is the first.
with Job(2) as job:
	job[0].makedirs("ds/tag")
	for rank in job:
		rank.file(OPTIM % ("ds/tag", rank.rank), 3000, 1)
	job[0].text("ds/latest", "tag")
	committed("ds/tag", EVERY, ranks=2)
with Job(3) as job:
	old = tree(back + "/ds/tag")
	job[2].file(OPTIM % ("ds/tag", 2), 3000, 2)
	is_anew("ds/tag", "the close of latest beside it", old)
	time_passes()
	job[0].file(OPTIM % ("ds/tag", 0), 3000, 2)
	job[0].text("ds/latest", "tag")
	is_anew("ds/tag", "*optim_states.pt of every rank", old)
	job[1].file(OPTIM % ("ds/tag", 1), 3000, 2)
	committed("ds/tag", EVERY, [(OPTIM % ("ds/tag", rank))[7:] for rank in range(3)], 3)
	assert set(tree(back + "/ds/tag").values()) >= {data(2, 3000)}

# torch.distributed.checkpoint: the same directory, with one file more, which comes first; then by fewer ranks. What
# nobody writes again stays.
with Job(2) as job:
	job[0].mkdir("dcp")
	for rank in job:
		rank.file("dcp/__%d_0.distcp" % rank.rank, 3000, 1, True)
	job[0].metadata("dcp", 1)
	committed("dcp", "rename .metadata", ranks=2)
	old = tree(back + "/dcp")
	job[0].file("dcp/__0_1.distcp", 3000, 2, True)
	is_some("dcp")
	job[0].file("dcp/__0_0.distcp", 3000, 2, True)
	is_anew("dcp", "the rename to .metadata", old)
	time_passes()
	job[1].file("dcp/__1_0.distcp", 3000, 2, True)
	is_anew("dcp", "the rename to .metadata", old)
	job[0].metadata("dcp", 2)
	committed("dcp", "rename .metadata", [".metadata", "__0_0.distcp", "__0_1.distcp", "__1_0.distcp"], 2)
with Job(1) as job:
	old = tree(back + "/dcp")
	job[0].text("dcp/note", "of whom knows what to make of it")
	job[0].file("dcp/__0_0.distcp", 3000, 3, True)
	is_anew("dcp", "the rename to .metadata", old)
	job[0].metadata("dcp", 3)
	committed("dcp", "rename .metadata", [".metadata", "__0_0.distcp", "__0_1.distcp", "__1_0.distcp", "note"], 1)
	assert tree(back + "/dcp")["__1_0.distcp"] == data(2, 3000)

# Who has no rank: a person's edit, and a program that writes the data anew, which has its own end.
one = Rank(session=True)
one.text("dcp/note", "edited")
is_some("dcp")
one.refill("dcp/__0_0.distcp", 5, 10, 9)
is_late("dcp")
old = tree(back + "/dcp")
one.file("dcp/__0_0.distcp", 3000, 4, True)
is_anew("dcp", "the rename to .metadata", old)
one.metadata("dcp", 4)
committed("dcp", "rename .metadata")
one.file("dcp/__0_0.distcp", 3000, 5, True)
is_anew("dcp", "the exit of every writer with status 0", tree(back + "/dcp"))
one.exit()
committed("dcp", "all closed + exited 0 + quiet + lone")
assert not failures(), failures()
_clock.exit()
END2
