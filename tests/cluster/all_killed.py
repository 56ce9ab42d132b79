#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# All nodes go at once, as in a power cut. Where one had not voted nothing is published by those that come back, and the job
# saves under that name again; where it was decided any node that comes back publishes it, also one that did not decide.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

import glob

TXN = BACK + "/.ckptfs/txn/%d/" % os.getuid()


def begin(ranks, unit, step):
	save(ranks, unit, step, end=False)
	gens = {os.path.basename(path).split(".")[0] for path in glob.glob(TXN + "*.open")}
	gen, = (gen for gen in gens if not os.path.exists(TXN + gen + ".decision"))
	ranks[0].do("open('%s/.metadata.tmp', 'wb').write(b'step %d')" % (unit, step))
	return gen


def voted(gen):
	"""How many have, directly below the root."""
	nr = 0
	for path in glob.glob(TXN + gen + ".log.0.*"):
		with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
			nr += file.read().split("\n", 1)[-1].startswith("vote ")
	return nr


# Three needs long to write back what it has.
with nodes("one", "two") as (one, two), nodes("three", options="flush_bw=%d" % ((1 << 20) // SLOW)) as (three,):
	there = (one, two, three)
	ranks = [Rank(node, i, 3) for i, node in enumerate(there)]
	gen = begin(ranks, "step-1", 1)
	ranks[2].do("with open('step-1/__2_1.distcp', 'wb') as f: f.write(bytes(40 << 20))")
	ranks[0].do("os.rename('step-1/.metadata.tmp', 'step-1/.metadata')")
	wait(lambda: voted(gen), "the vote of two")
	for what in ranks + [one, two, three]:
		what.kill()
	for node in there:
		node.mount()
		assert not os.path.exists(node.path("step-1")), node.name
	assert not os.path.exists(BACK + "/step-1")
	ranks = [Rank(node, i, 3, restart=1) for i, node in enumerate(there)]
	save(ranks, "step-1", 2)
	for node in there:
		node.wait_for("step-1")
	check("step-1", 3, 2)

	gen = begin(ranks, "step-2", 3)
	ranks[0].begin("os.rename('step-2/.metadata.tmp', 'step-2/.metadata')")
	wait(lambda: glob.glob(TXN + gen + ".decision"), "the decision")
	for what in there + tuple(ranks):
		what.kill()
	two.mount()
	check("step-2", 3, 3)
	assert os.path.exists(two.path("step-2"))
	two.leave()
