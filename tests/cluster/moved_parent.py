#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# The directory that an open checkpoint is in gets another name, on one node: on all it goes on under that, and commits there.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	for by in (0, 1):
		save(ranks, "run-%d/step-1" % by, 1, end=False)
		ranks[by].do("os.rename('run-%d', 'moved-%d')" % (by, by))
		wait(lambda: not any(rank.do("result = os.path.exists('run-%d')" % by) for rank in ranks), "the old name to go") # pylint: disable=cell-var-from-loop
		for rank in ranks:
			rank.write("moved-%d/step-1/__%d_1.distcp" % (by, rank.rank), content(rank.rank, 2))
		save(ranks, "moved-%d/step-1" % by, 1)
		for node in (one, two):
			node.wait_for("moved-%d/step-1" % by)
		made = check("moved-%d/step-1" % by, 2, 1)
		assert len(made["files"]) == 5 and made["unit"] == "moved-%d/step-1" % by, made
	for rank in ranks:
		rank.leave()
	for node in (one, two):
		node.leave()
	assert staged() == [], staged()
