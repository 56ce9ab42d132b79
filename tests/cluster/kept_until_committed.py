#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 240
# What names the last checkpoint, and that itself, stay on all nodes until the next one is committed: also if a rank wrote to
# the pointer before others had written, or removed the old one first, and then a rank on another node dies, or its daemon does.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

STATES = "zero_pp_rank_%d_mp_rank_00_optim_states.pt"


def begin(ranks, step):
	unit = "run/global_step%d" % step
	ranks[0].do("os.makedirs(%r)" % unit)
	ranks[0].write("%s/%s" % (unit, STATES % 0), content(0, step))
	ranks[0].write("run/latest", b"global_step%d" % step)
	ranks[1].do("files[0] = open('%s/%s', 'wb', 0); files[0].write(b'some')" % (unit, STATES % 1))
	return unit


with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	unit = begin(ranks, 1)
	ranks[1].do("files[0].close()")
	for node in (one, two):
		node.wait_for(unit)
	wait(lambda: os.path.exists(BACK + "/run/latest"), "the pointer")

	# The pointer is written, and what it names comes to nothing.
	unit = begin(ranks, 2)
	assert ranks[1].read("run/latest") == b"global_step1"
	ranks[1].kill()
	for node in (one, two):
		node.fails(unit)
	ranks[0].kill()
	ranks = [Rank(one, 0, 2, restart=1), Rank(two, 1, 2, restart=1)]
	for rank in ranks:
		assert rank.read("run/latest") == b"global_step1"
		assert rank.do("result = sorted(os.listdir('run'))") == ["global_step1", "latest"]
	with open(BACK + "/run/latest", "rb") as file:
		assert file.read() == b"global_step1"

	# The old one is removed first.
	ranks[0].do("os.makedirs('keep')")
	save(ranks, "keep/step-1", 1)
	for node in (one, two):
		node.wait_for("keep/step-1")
	ranks[0].do("import shutil; shutil.rmtree('keep/step-1')")
	save(ranks, "keep/step-2", 2, end=False)
	two.kill()
	told = one.fails("keep/step-2")
	assert "shows no life" in told, told
	for rank in ranks:
		rank.kill()
	check("keep/step-1", 2, 1)
	two.mount()
	ranks = [Rank(one, 0, 2, restart=2), Rank(two, 1, 2, restart=2)]
	save(ranks, "keep/step-3", 3)
	for node in (one, two):
		node.wait_for("keep/step-3")
	check("keep/step-3", 2, 3)
	for rank in ranks:
		rank.leave()
	for node in (one, two):
		node.leave()
