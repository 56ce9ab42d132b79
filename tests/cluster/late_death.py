#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A rank that dies when the end has been seen, on another node, is too late to spoil what it had closed: that commits.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two") as (one, two):
	for step in range(5):
		ranks = [Rank(one, 0, 2, restart=step), Rank(two, 1, 2, restart=step)]
		save(ranks, "step-%d" % step, step)
		ranks[1].kill()
		ranks[0].kill()
		for node in (one, two):
			node.wait_for("step-%d" % step)
		check("step-%d" % step, 2, step)
