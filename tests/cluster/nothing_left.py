#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Of a rank that dies when it has made but directories nothing keeps the one that they are in from being removed, on any node.

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

with nodes("one", "two") as both:
	for made, removed in (both, reversed(both)):
		rank = Rank(made, 0, 2)
		rank.do("os.makedirs('run/step-1/sharded')")
		rank.kill()
		for node in both:
			wait(lambda: not os.listdir(node.path("run")), "it to be gone") # pylint: disable=cell-var-from-loop
		assert staged(BACK + "/run"), "nothing of it is hidden there"
		shutil.rmtree(removed.path("run"))
		assert not os.path.exists(BACK + "/run")
	for node in both:
		node.leave()
