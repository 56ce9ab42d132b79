#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# What a rank appends to a file of the checkpoint that others have read is there when they read it
# again, though their clients of the backing remember how long it was.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, check, content, nodes, save, staged
from remembering import make

NAME = "run/step-1/__1_0.distcp"

with nodes("one", "two", "three", make=make) as three:
    ranks = [Rank(node, rank, 3) for rank, node in enumerate(three)]
    save(ranks, "run/step-1", 1, end=False)
    whole = content(1, 1)
    for turn in range(3):
        for rank in ranks:
            assert rank.read(NAME) == whole, (turn, rank.rank)
            assert rank.do(f"result = os.stat({NAME!r}).st_size") == len(whole), (turn, rank.rank)
        ranks[1].do(f"with open({NAME!r}, 'ab') as f: f.write(b'more {turn}')")
        whole += b"more %d" % turn
    ranks[1].write(NAME, content(1, 1))
    save([ranks[0]], "run/step-1", 1)
    for node in three:
        node.wait_for("run/step-1")
    check("run/step-1", 3, 1)
    for rank in ranks:
        rank.leave()
    for node in three:
        node.leave()
assert staged() == [], staged()
