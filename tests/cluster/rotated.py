#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# What a rank has removed, before it saved the next, is there again when that fails with another node, though the rank itself
# goes on and ends well, as accelerate's first does, which asks nobody behind its last save.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	save(ranks, "step-1", 1)
	for node in (one, two):
		node.wait_for("step-1")
	ranks[0].do("import shutil; shutil.rmtree('step-1')")
	assert not os.path.exists(one.path("step-1"))
	save(ranks, "step-2", 2, end=False)
	two.kill()
	assert "shows no life" in one.fails("step-2")
	assert not os.path.exists(one.path("step-1")), "its job may still save another"
	ranks[0].leave()
	wait(lambda: not one.status()["removals"], "the removal to be over")
	assert os.path.exists(one.path("step-1/.metadata"))
	check("step-1", 2, 1)
	one.leave()
