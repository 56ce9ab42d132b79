#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A daemon is stopped, a rank on its node dies, and another node ends the save. When it goes on it cannot tell which of these was
# first: so it takes the death for that, and nothing that a dead rank may have left torn is committed.

import os
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two", "three", options="lease_s=60") as there:
	one = there[0]
	for step, (dead, ender) in enumerate(((0, 2), (1, 2), (1, 0), (2, 1))):
		unit = "step-%d" % step
		job = [Rank(node, rank, 3, restart=step) for rank, node in enumerate(there)]
		save(job, unit, end=False)
		job[dead].write("%s/__%d_0.distcp" % (unit, dead), b"cut o")
		one.wait_for_closed(unit, 2)
		os.kill(there[dead].pid, signal.SIGSTOP)
		time.sleep(1) # what two nodes do within less has no order that could be known
		job[dead].kill()
		job[ender].do("open('%s/.metadata.tmp', 'wb').write(b'end'); os.rename('%s/.metadata.tmp', '%s/.metadata')" % (unit, unit, unit))
		os.kill(there[dead].pid, signal.SIGCONT)
		for node in there:
			assert "(rank %d), which was writing it, was killed" % dead in node.fails(unit)
		assert not os.path.exists(os.path.join(BACK, unit)), unit
		for rank in job:
			rank.kill()
