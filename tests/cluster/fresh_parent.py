#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A rank makes the directory of a run and a checkpoint in it; a rank on another node is the first to write there, by which the
# former turns out to be no checkpoint. Neither misses the latter meanwhile.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

STATES = "run%d/global_step1/zero_pp_rank_%d_mp_rank_00_optim_states.pt"

with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	for run in range(30):
		ranks[1].do("os.makedirs('run%d/global_step1')" % run)
		for rank in ranks:
			rank.write(STATES % (run, rank.rank), content(rank.rank, run))
		ranks[0].write("run%d/latest" % run, b"global_step1")
	for run in range(30):
		for node in (one, two):
			node.wait_for("run%d/global_step1" % run)
		for rank in range(2):
			with open(os.path.join(BACK, STATES % (run, rank)), "rb") as file:
				assert file.read() == content(rank, run), (run, rank)
	for rank in ranks:
		rank.leave()
