#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# A checkpoint is saved anew over one of its name, where each rank has read what the others have
# written before: each reads what they have written now, though its client of the backing remembers
# the former.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, check, content, nodes, save, staged
from remembering import make

NAME = "run/step-1/__%d_0.distcp"

with nodes("one", "two", "three", make=make) as three:
    ranks = [Rank(node, rank, 3) for rank, node in enumerate(three)]
    save(ranks, "run/step-1", 1)
    for node in three:
        node.wait_for("run/step-1")
    for step in 2, 3:
        save(ranks, "run/step-1", step, end=False)
        for rank in ranks:
            for of in range(3):
                assert rank.read(NAME % of) == content(of, step), (rank.rank, of, step)
                assert rank.do(f"result = os.stat({NAME % of!r}).st_size") == len(content(of, step))
    save(ranks, "run/step-1", 4)
    for node in three:
        node.wait_for("run/step-1")
    check("run/step-1", 3, 4)
    for rank in ranks:
        rank.leave()
    for node in three:
        node.leave()
assert staged() == [], staged()
