#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A node that has only looked at what others save takes nothing of it along when it is unmounted, or when its process dies.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two", "three") as (one, two, three):
	ranks = [Rank(one, 0, 3), Rank(two, 1, 3), Rank(three, 2, 3)]
	save(ranks[:2], "step-1", 1, end=False)
	staging, = staged()
	assert ranks[2].do("result = sorted(os.listdir('step-1'))") == ["__0_0.distcp", "__1_0.distcp"]
	ranks[2].leave()
	code, told = three.umount()
	for rank in range(2):
		with open("%s/__%d_0.distcp" % (staging, rank), "rb") as file:
			assert file.read() == content(rank, 1)
	assert code == 1 and "step-1" in told, (code, told)
	for node in (one, two):
		told = node.fails("step-1")
		assert "was not complete" in told or "unmounted" in told, told
	assert not os.path.exists(BACK + "/step-1")
	assert os.path.isdir(staging), staging
