#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Two nodes change a committed checkpoint at once, each another file of it: neither change is lost, and what is committed then
# is all of it.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	save(ranks, "step-1", 1)
	for node in (one, two):
		node.wait_for("step-1")
	for turn in range(3):
		for rank in ranks:
			rank.begin("open('step-1/progress-%d.txt', 'a').write('%d ')" % (rank.rank, turn))
		for rank in ranks:
			rank.end()
	for rank in ranks:
		for of in range(2):
			assert rank.read("step-1/progress-%d.txt" % of) == b"0 1 2 "
	for node in (one, two):
		node.wait_for("step-1")
	made = check("step-1", 2, 1)
	sizes = {f["path"]: f["size"] for f in made["files"]}
	assert sizes["progress-0.txt"] == sizes["progress-1.txt"] == 6, sizes
	for rank in ranks:
		rank.leave()
	for node in (one, two):
		node.leave()
	assert staged() == [], staged()
