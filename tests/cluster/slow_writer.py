#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# Who reads what another node writes back waits for it as long as that goes on, also for longer than commit_timeout_s; of who
# has it open, and writes nothing more, no longer than that.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

SIZE, RATE, PATIENCE = 10 << 20, (1 << 20) // SLOW, 3 * SLOW

with nodes("one", "two", options="commit_timeout_s=%d,flush_bw=%d" % (PATIENCE, RATE)) as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	save(ranks, "step-1", 1, end=False)
	ranks[1].do("with open('step-1/__1_1.distcp', 'wb') as f: f.write(bytes(%d))" % SIZE)
	assert ranks[0].do("result = len(open('step-1/__1_1.distcp', 'rb').read())") == SIZE
	ranks[1].do("files['x'] = open('step-1/__1_2.distcp', 'wb', 0); files['x'].write(b'x')")
	try:
		got = ranks[0].do("result = len(open('step-1/__1_2.distcp', 'rb').read())")
	except OSError as e:
		assert e.errno == errno.ETIMEDOUT, e
	else:
		raise AssertionError("it read %d bytes" % got)
	for rank in ranks:
		rank.kill()
