#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# cpu: 20
# A job that is started again saves under the name of the checkpoint that died with it, while that is judged: whichever of its ranks
# is first begins it anew, and the others, that come in the same moment, find the new one.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


def begin(order, restart):
	return [Rank(node, rank, len(order), restart=restart) for rank, node in enumerate(order)]


with nodes("one", "two", "three", "four") as (one, two, three, four):
	for step in range(8):
		unit = "step-%d" % step
		ranks = begin((one, two, three, three), 2 * step)
		save(ranks[:2], unit, end=False)
		ranks[2].do("os.path.exists('%s/config')" % unit)
		one.wait_for_closed(unit)
		for rank in ranks[1:]:
			rank.leave()
		again = begin((three, two, one, four), 2 * step + 1) # the fourth knows nothing of the old one
		for rank in again:
			rank.do("None")
		ranks[0].kill()
		save(again, unit, step)
		for node in (one, two, three, four):
			node.wait_for(unit)
		check(unit, 4, step)
		for rank in again:
			rank.leave()
