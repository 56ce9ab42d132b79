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

SIZE, RATE, PATIENCE = 6 << 20, (1 << 20) // SLOW, 3 * SLOW

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

	# A file that serves as a lock, say: who would write to it, too, is told, can be interrupted, and goes on when it is closed.
	ranks[1].do("files['lock'] = open('step-1/lock', 'a+')")
	wait(lambda: ranks[0].do("result = os.path.exists('step-1/lock')"))
	try:
		ranks[0].do("open('step-1/lock', 'r+')")
	except OSError as e:
		assert e.errno == errno.ETIMEDOUT, e
	else:
		raise AssertionError("both have it open")
	with open(one.path(".ckptfs/failures.json"), encoding="utf-8") as file:
		assert "'step-1/lock' cannot be opened here" in file.read()
	ranks[0].do("import signal; signal.signal(signal.SIGALRM, lambda *_: 1 / 0)")
	ranks[0].begin("""
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
try:
	open('step-1/lock', 'a+')
except ZeroDivisionError:
	result = 'interrupted'
finally:
	signal.setitimer(signal.ITIMER_REAL, 0)
""")
	assert ranks[0].end() == "interrupted"
	ranks[0].begin("with open('step-1/lock', 'a+') as f: f.write('x'); result = f.tell()")
	ranks[1].do("files['lock'].write('y'); files['lock'].close()")
	assert ranks[0].end() == 2
	for rank in ranks:
		rank.kill()
