#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A rank that dies when the end has been seen, on another node, is too late to spoil what it had closed: that commits. Also where
# the rank died on the node that began the checkpoint, which has yet to hear of that end.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

TXN = BACK + "/.ckptfs/txn/%d/" % os.getuid()


def told():
	"""What was told to who began the one checkpoint that is open, in that order."""
	(staging,) = staged()
	log = os.path.basename(staging)[len(".ckptfs-"):] + ".log.0."
	texts = []
	numbers = (name[len(log):] for name in os.listdir(TXN) if name.startswith(log))
	for number in sorted(int(number) for number in numbers if number.isdigit()): # else it is being made
		with open(TXN + log + str(number), encoding="utf-8") as file:
			texts.append(file.read())
	return texts


def committed(unit, step):
	for node in (one, two):
		node.wait_for(unit)
	check(unit, 2, step)


def begin(step):
	return [Rank(one, 0, 2, restart=step), Rank(two, 1, 2, restart=step)]


with nodes("one", "two") as (one, two):
	for step in range(5):
		ranks = begin(step)
		save(ranks, "step-%d" % step, step)
		ranks[1].kill()
		ranks[0].kill()
		committed("step-%d" % step, step)

	# The last one to write is on a node that did not begin it, and the rank dies on the other.
	for step in range(5, 10):
		unit = "step-%d" % step
		ranks = begin(step)
		ranks[1].do("os.mkdir(%r)" % unit)
		save(ranks, unit, step)
		ranks[1].kill()
		ranks[0].leave()
		committed(unit, step)

	# ... or is yet to be told: after many reports the next one follows later.
	ranks = begin(10)
	ranks[1].do("os.mkdir('step-10')")
	save(ranks, "step-10", 10, end=False)
	for i in range(1, 5):
		ranks[0].do("file = open('step-10/__0_%d.distcp', 'wb')" % i)
		wait(lambda: '"open":true' in told()[-1], "it to be told")
		ranks[0].do("file.close()")
		wait(lambda: '"open":false' in told()[-1], "it to be told")
	ranks[0].do("open('step-10/.metadata.tmp', 'wb').write(b'step 10')")
	ranks[0].do("os.rename('step-10/.metadata.tmp', 'step-10/.metadata')")
	ranks[1].kill()
	ranks[0].leave()
	committed("step-10", 10)
