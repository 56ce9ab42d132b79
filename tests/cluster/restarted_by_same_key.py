#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A job that nothing tells from its former start (MASTER_ADDR and MASTER_PORT) is started again while the checkpoint that died with it
# is being judged. That it failed is nothing to the new processes: what they save is saved.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two", "three") as there:
	one = there[0]
	for turn in range(3):
		job = {"job": "none", "MASTER_ADDR": "head%d" % turn, "MASTER_PORT": "29500"}
		old = [Rank(node, rank, 3, **job) for rank, node in enumerate(there)]
		save(old[:2], "run-%d/step-1" % turn, end=False)
		old[2].do("os.listdir('run-%d/step-1')" % turn) # its node has nothing to tell of a death, and is waited for
		one.wait_for_closed("run-%d/step-1" % turn)
		for rank in old:
			rank.kill()
		new = [Rank(node, rank, 3, **job) for rank, node in enumerate(there)]
		save(new, "run-%d/step-2" % turn, turn)
		for node in there:
			node.wait_for("run-%d/step-2" % turn)
		check("run-%d/step-2" % turn, 3, turn)
		assert "was killed" in one.fails("run-%d/step-1" % turn)
		for rank in new:
			rank.leave()
