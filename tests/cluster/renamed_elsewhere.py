#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A rank on a node that has not begun the checkpoint gives it its final name, which ends it (Orbax): it is committed under
# that, though nobody on the node that began it has asked for the name.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	for step in (7, 8):
		tmp = "run/%d.orbax-checkpoint-tmp-1" % step
		ranks[0].do("os.makedirs('%s/default')" % tmp)
		for rank in ranks:
			rank.write("%s/default/d%d" % (tmp, rank.rank), content(rank.rank, step))
		ranks[1].write(tmp + "/_CHECKPOINT_METADATA", b"{}")
		ranks[1].do("os.rename(%r, 'run/%d')" % (tmp, step))
		wait(lambda: os.path.exists(BACK + "/run/%d" % step), "its name")  # pylint: disable=cell-var-from-loop
		assert not os.path.exists(os.path.join(BACK, tmp))
		for node in (one, two):
			node.wait_for("run/%d" % step)
			assert not os.path.exists(node.path(tmp)), node.name
			assert sorted(os.listdir(node.path("run/%d" % step))) == ["_CHECKPOINT_METADATA", "default"]
		with open(BACK + "/run/%d/.ckptfs-commit.json" % step, encoding="utf-8") as file:
			assert json.load(file)["unit"] == "run/%d" % step
	for rank in ranks:
		rank.leave()
	for node in (one, two):
		node.leave()
	assert staged() == [], staged()
