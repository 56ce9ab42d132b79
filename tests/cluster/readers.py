#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Who reads what another node is still writing waits until that is closed; if it comes to nothing he gets an error, and never
# a part of it.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	save(ranks, "step-1", 1, end=False)
	ranks[1].do("files['x'] = open('step-1/__1_1.distcp', 'wb'); files['x'].write(b'x' * 10000); files['x'].flush()")
	wait(lambda: ranks[0].do("result = os.path.exists('step-1/__1_1.distcp')"))
	ranks[0].begin("result = len(open('step-1/__1_1.distcp', 'rb').read())")
	ranks[1].do("files['x'].write(b'x' * 10000); files['x'].close()")
	assert ranks[0].end() == 20000
	ranks[1].do("files['x'] = open('step-1/__1_2.distcp', 'wb'); files['x'].write(b'x' * 10000000); files['x'].flush()")
	wait(lambda: ranks[0].do("result = os.path.exists('step-1/__1_2.distcp')"))
	ranks[0].begin("result = len(open('step-1/__1_2.distcp', 'rb').read())")
	ranks[1].kill()
	try:
		got = ranks[0].end()
	except OSError as e:
		assert e.errno == errno.EIO, e
	else:
		raise AssertionError("it read %d bytes" % got)
	ranks[0].kill()
