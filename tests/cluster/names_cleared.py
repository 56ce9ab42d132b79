#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# What nodes have recorded of the names that they saved to goes when fsck looks at the backing, but not while there is a lease
# of a node, which may come back and add to it.

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

STEPS = ("step-1", "step-2", "step-1")


def names():
	return glob.glob(BACK + "/.ckptfs/txn/%d/*.name" % os.getuid())


def fsck():
	subprocess.run([CKPTFS, "fsck", BACK], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)


with nodes("one", "two") as (one, two):
	for turn in range(2):
		ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
		for step, unit in enumerate(STEPS):
			save(ranks, unit, step)
			for node in (one, two):
				node.wait_for(unit)
			check(unit, 2, step)
		for rank in ranks:
			rank.leave()
		assert len(names()) == len(STEPS), names()
		for node in (one, two):
			node.leave()
		one.mount()
		one.kill()
		fsck()
		assert len(names()) == len(STEPS), "while somebody may live"
		one.mount()
		one.leave()
		fsck()
		assert names() == [], names()
		assert os.listdir(BACK + "/.ckptfs/txn/%d" % os.getuid()) == []
		for node in (one, two):
			node.mount()
