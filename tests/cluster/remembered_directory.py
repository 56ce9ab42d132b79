#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# A directory turns out to be a checkpoint when ranks on three nodes write to it at once: none of
# them meets the one that was there before, which their clients of the backing remember.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, check, nodes, save, staged
from remembering import make

with nodes("one", "two", "three", make=make) as three:
    ranks = [Rank(node, rank, 3) for rank, node in enumerate(three)]
    for run in range(4):
        save(ranks, f"run{run}/step", run)
    for run in range(4):
        for node in three:
            node.wait_for(f"run{run}/step")
        check(f"run{run}/step", 3, run)
    for rank in ranks:
        rank.leave()
    for node in three:
        node.leave()
assert staged() == [], staged()
