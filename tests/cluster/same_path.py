#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Two nodes write one path of a checkpoint, as save_on_each_node does: equal content is one file; of different ones one is
# there, whole, and people are told of the other.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

def told(node):
	with open(node.path(".ckptfs/failures.json"), encoding="utf-8") as file:
		return [f["message"] for f in json.load(file)]


with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	for step, differ in ((1, False), (2, True), (3, True)):
		unit = "step-%d" % step
		save(ranks, unit, step, end=False)
		for rank in ranks:
			rank.begin("with open('%s/config.json', 'wb') as f: f.write(%r)" % (unit, b"%d" % (rank.rank if differ else 0) * 5000))
		for rank in ranks:
			rank.end()
		save(ranks, unit, step)
		for node in (one, two):
			node.wait_for(unit)
		check(unit, 2, step)
		with open(os.path.join(BACK, unit, "config.json"), "rb") as file:
			kept = file.read()
		assert kept in ([b"0" * 5000, b"1" * 5000] if differ else [b"0" * 5000])
		assert not told(two), told(two)
		assert len(told(one)) == (step - 1), told(one)
		if differ:
			nodes_of = ("two", "one", "one") if kept[:1] == b"0" else ("one", "two", "two")
			assert told(one)[-1].startswith("'step-%d/config.json' was written by node %s and by node %s, with different content, "
				"and a checkpoint has one file of a name: that of node %s is kept." % (step, *nodes_of)), told(one)
	# Both have it open at once.
	ranks[0].do("os.mkdir('step-4')")
	for rank in ranks:
		rank.do("files['c'] = open('step-4/config.json', 'wb'); files['c'].write(%r); files['c'].flush()" % (b"%d" % rank.rank * (4000 + rank.rank)))
	for rank in reversed(ranks):
		rank.do("files['c'].close()")
	save(ranks, "step-4", 4)
	for node in (one, two):
		node.wait_for("step-4")
	check("step-4", 2, 4)
	with open(os.path.join(BACK, "step-4", "config.json"), "rb") as file:
		got = file.read()
	assert got in (b"0" * 4000, b"1" * 4001), (len(got), got[:10], got[-10:])
	for rank in ranks:
		rank.leave()
	for node in (one, two):
		node.leave()
	assert staged() == [], staged()
