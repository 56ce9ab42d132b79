#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A rank of a former start of a job that has not gone yet is refused what the later start saves, whether that is to be seen by more
# than its name yet or not; and that is saved.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two") as (one, two):
	for turn, shared in enumerate((False, True)):
		unit = "step-%d" % turn
		former = [Rank(node, rank, 2, restart=0) for rank, node in enumerate((one, two))]
		for rank in former:
			rank.do("None")
		job = [Rank(node, rank, 2, restart=1) for rank, node in enumerate((one, two))]
		job[0].do("os.mkdir(%r)" % unit)
		if shared:
			job[1].do("os.listdir(%r)" % unit)
		for rank in former[:2 if shared else 1]:
			try:
				rank.write("%s/__7_0.distcp" % unit, b"former")
				raise AssertionError("a former start has written to it")
			except OSError as e:
				assert e.errno == errno.EBUSY, e
		save(job, unit, turn)
		for node in (one, two):
			node.wait_for(unit)
		check(unit, 2, turn)
		assert not os.path.exists(os.path.join(BACK, unit, "__7_0.distcp"))
		for rank in (*former, *job):
			rank.leave()
