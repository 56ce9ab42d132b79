#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# A node that needs longer than commit_timeout_s to write what it has back, but goes on, is waited for.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

SIZE, RATE, PATIENCE = 6 << 20, (1 << 20) // SLOW, 3 * SLOW

with nodes("one", "two", options="commit_timeout_s=%d,flush_bw=%d" % (PATIENCE, RATE)) as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	save(ranks, "step-1", 1, end=False)
	ranks[1].do("with open('step-1/__1_1.distcp', 'wb') as f: f.write(bytes(%d))" % SIZE)
	ranks[0].do("open('step-1/.metadata.tmp', 'wb').write(b'step 1'); os.rename('step-1/.metadata.tmp', 'step-1/.metadata')")
	for node in (one, two):
		node.wait_for("step-1")
	check("step-1", 2, 1)
	for rank in ranks:
		rank.leave()
