#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# The name is taken on the backing when all has been decided: nothing is replaced, and every node
# says so.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, nodes, save

with nodes("one", "two") as (one, two):
    ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
    save(ranks, "step-1", 1, end=False)
    os.mkdir(BACK + "/step-1")
    with open(BACK + "/step-1/mine", "w", encoding="ascii") as file:
        file.write("mine")
    ranks[0].do(
        "open('step-1/.metadata.tmp', 'wb').write(b'step 1'); "
        "os.rename('step-1/.metadata.tmp', 'step-1/.metadata')"
    )
    for node in (one, two):
        told = node.fails("step-1")
        assert "Nothing was replaced" in told, told
    assert os.listdir(BACK + "/step-1") == ["mine"]
    for rank in ranks:
        rank.kill()
