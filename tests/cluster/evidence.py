#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 240
# What tells the end of a checkpoint is asked of all nodes: a rank that is slow and has not begun yet is missed where no barrier
# is before the trigger, a file that is open elsewhere, or a directory that is still empty, is no quiet; and ranks that have
# nothing to write are not waited for.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

STATES = "zero_pp_rank_%d_mp_rank_00_optim_states.pt"


def accelerate(ranks, unit):
	ranks[0].do("os.makedirs(%r)" % unit)
	for rank in ranks:
		rank.write("%s/random_states_%d.pkl" % (unit, rank.rank), content(rank.rank, 1))


with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]

	# Rank 1 has not even looked when `latest` is written.
	ranks[0].do("os.makedirs('run/global_step1')")
	ranks[0].write("run/global_step1/" + STATES % 0, content(0, 1))
	ranks[0].write("run/latest", b"global_step1")
	assert "rank 1" in one.ckptfs("why", one.path("run/global_step1"))
	assert not os.path.exists(BACK + "/run/global_step1") and not os.path.exists(BACK + "/run/latest")
	ranks[1].write("run/global_step1/" + STATES % 1, content(1, 1))
	for node in (one, two):
		node.wait_for("run/global_step1")
	wait(lambda: os.path.exists(BACK + "/run/latest"), "the pointer")
	with open(BACK + "/run/global_step1/" + STATES % 1, "rb") as file:
		assert file.read() == content(1, 1)

	# Rank 1 has nothing to write.
	save(ranks[:1], "alone/step-1", 1)
	one.wait_for("alone/step-1")
	check("alone/step-1", 1, 1)

	# As long as another needs to be quiet and committed: nothing was put into this one; of that one a file is open.
	ranks[0].do("os.makedirs('empty/checkpoint_3')")
	assert ranks[1].do("result = os.listdir('empty/checkpoint_3')") == []
	accelerate(ranks, "open/checkpoint_3")
	ranks[1].do("files[0] = open('open/checkpoint_3/custom_checkpoint_0.pkl', 'wb', 0); files[0].write(b'some')")
	accelerate(ranks, "quiet/checkpoint_3")
	two.wait_for("quiet/checkpoint_3")
	assert os.path.exists(BACK + "/quiet/checkpoint_3")
	for unit in ("open/checkpoint_3", "empty/checkpoint_3"):
		assert not os.path.exists(os.path.join(BACK, unit)), unit
		for rank in ranks:
			assert rank.do("result = os.path.isdir(%r)" % unit), (unit, rank.rank)
	ranks[1].do("files[0].write(b'more'); files[0].close()")
	for node in (one, two):
		node.wait_for("open/checkpoint_3")
	with open(BACK + "/open/checkpoint_3/custom_checkpoint_0.pkl", "rb") as file:
		assert file.read() == b"somemore"
	ranks[0].do("os.rmdir('empty/checkpoint_3')")
	for rank in ranks:
		rank.leave()
	for node in (one, two):
		node.leave()
