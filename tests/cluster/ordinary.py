#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Directories that are no checkpoint, made by ranks on all nodes at once, are there on all of them.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two", "three") as (one, two, three):
	ranks = [Rank(one, 0, 4), Rank(two, 1, 4), Rank(three, 2, 4), Rank(three, 3, 4)]
	for i in range(8):
		for rank in ranks:
			rank.begin("os.makedirs('out-%d/logs', exist_ok=True)" % i)
		for rank in ranks:
			rank.end()
		ranks[i % 4].write("out-%d/config.json" % i, b"{}")
		for rank in ranks:
			assert rank.read("out-%d/config.json" % i) == b"{}"
	# Both at once.
	for i in range(8):
		for rank in ranks:
			rank.begin("os.makedirs('all-%d', exist_ok=True); open('all-%d/notes-%d.txt', 'w').write('x')" % (i, i, rank.rank))
		for rank in ranks:
			rank.end()
		for rank in ranks:
			assert rank.do("result = sorted(os.listdir('all-%d'))" % i) == ["notes-%d.txt" % r for r in range(4)]
	assert len(os.listdir(BACK)) == 17, os.listdir(BACK)
	# One that nothing was put in goes with its processes, and nothing is left of all that was agreed on.
	ranks[1].do("os.mkdir('left')")
	for rank in ranks:
		rank.do("os.listdir('left')")
		rank.do("os.path.isdir('left')")
	ranks[1].do("os.rmdir('left')")
	for rank in ranks:
		wait(lambda: not rank.do("result = os.path.exists('left')"), "it to be gone") # pylint: disable=cell-var-from-loop
		rank.leave()
	for node in (one, two, three):
		node.leave()
	assert staged() == [], staged()
	one.mount() # clears up what those that are gone could not
	one.leave()
	left = [name for _, _, names in os.walk(BACK + "/.ckptfs/txn") for name in names if not name.endswith(".name")]
	assert left == [], left
