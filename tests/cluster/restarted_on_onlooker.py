#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A job that is started again saves under the name of the checkpoint that died with it, at once, and by way of a node that had only
# looked at that, and does not know what it was: nothing of the new save is put into the old one.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


def begin(order, restart):
	return [Rank(node, rank, 3, restart=restart) for rank, node in enumerate(order)]


with nodes("one", "two", "three") as (one, two, three):
	for step in range(3):
		unit = "step-%d" % step
		ranks = begin((one, two, three), 2 * step)
		save(ranks[:2], unit, end=False)
		ranks[2].do("os.path.exists('%s/config')" % unit)
		one.wait_for_closed(unit)
		for rank in ranks[1:]:
			rank.leave()
		ranks[0].kill()
		ranks = begin((three, one, two), 2 * step + 1)
		ranks[0].do("os.makedirs(%r, exist_ok=True)" % unit)
		for rank in ranks: # one after the other: until the first has begun it anew the others find nothing
			rank.write("%s/__%d_0.distcp" % (unit, rank.rank), content(rank.rank, step))
		save(ranks[:1], unit, step)
		for node in (one, two, three):
			node.wait_for(unit)
		check(unit, 3, step)
		for rank in ranks:
			rank.leave()
