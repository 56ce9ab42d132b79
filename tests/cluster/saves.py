#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A checkpoint that ranks on three nodes write to is one: each sees what the others make, it commits once, with what all have
# written, and every node reads it, also over an older one of the name.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two", "three") as (one, two, three):
	ranks = [Rank(one, 0, 5), Rank(two, 1, 5), Rank(two, 2, 5), Rank(three, 3, 5), Rank(three, 4, 5)]
	save(ranks, "run/step-1", 1, end=False)
	# What is under way shows on all nodes; and what is closed is read there, whole.
	for rank in ranks:
		assert rank.do("result = sorted(os.listdir('run/step-1'))") == ["__%d_0.distcp" % r for r in range(5)]
		assert rank.read("run/step-1/__%d_0.distcp" % ((rank.rank + 2) % 5)) == content((rank.rank + 2) % 5, 1)
	assert not os.path.exists(BACK + "/run/step-1")
	save(ranks, "run/step-1", 1)
	for node in (one, two, three):
		node.wait_for("run/step-1")
	made = check("run/step-1", 5, 1)
	assert made["world"] == {"ranks": 5, "nodes": 3}, made["world"]
	assert {(f["path"], f["node"], f.get("rank")) for f in made["files"]} == {
		(".metadata", "one", 0), ("__0_0.distcp", "one", 0), ("__1_0.distcp", "two", 1), ("__2_0.distcp", "two", 2),
		("__3_0.distcp", "three", 3), ("__4_0.distcp", "three", 4)}, made["files"]

	# Another, and the same name again: a new save of what is committed.
	save(ranks, "run/step-2", 2)
	save(ranks, "run/step-1", 3)
	for rank in ranks:
		assert rank.read("run/step-1/__0_0.distcp") == content(0, 3)
		rank.leave()
	for node in (one, two, three):
		node.wait_for("run/step-2")
		node.wait_for("run/step-1")
	check("run/step-2", 5, 2)
	check("run/step-1", 5, 3)
	for node in (one, two, three):
		assert node.umount() == (0, ""), node.name
	assert staged() == [], staged()
