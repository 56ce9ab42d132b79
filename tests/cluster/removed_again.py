#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# What a rank removes again on a node that does not see the end itself is no evidence for the one that does, also if it
# came and went twice, or got another name.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

STATES = "zero_pp_rank_%d_mp_rank_00_optim_states.pt"

with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	ranks[0].do("os.makedirs('run/global_step1')")
	ranks[0].write("run/global_step1/" + STATES % 0, content(0, 1))
	for way in ("os.unlink({0!r})", "os.unlink({0!r})", "os.rename({0!r}, {0!r} + '.old')"):
		path = "run/global_step1/" + STATES % 1
		ranks[1].write(path, content(1, 1))
		# The other node has heard of it.
		wait(lambda: "rank 1" not in two.ckptfs("why", one.path("run/global_step1")), "the root to hear of it")
		ranks[1].do(way.format(path))
		wait(lambda: "rank 1" in one.ckptfs("why", one.path("run/global_step1")), "the root to hear that it is gone")
	ranks[0].write("run/latest", b"global_step1")
	assert "rank 1" in one.ckptfs("why", one.path("run/global_step1"))
	assert not os.path.exists(BACK + "/run/global_step1")
	ranks[1].write(path, content(1, 2))
	for node in (one, two):
		node.wait_for("run/global_step1")
	with open(os.path.join(BACK, path), "rb") as file:
		assert file.read() == content(1, 2)
	for rank in ranks:
		rank.leave()
