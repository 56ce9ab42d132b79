#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# Ranks on three nodes give a name in the checkpoint to files of theirs, one after the other: all of
# them read what has it now, though their clients of the backing remember what had it before.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, check, nodes, save, staged
from remembering import make

NAME = "run/step-1/progress"

with nodes("one", "two", "three", make=make) as three:
    ranks = [Rank(node, rank, 3) for rank, node in enumerate(three)]
    save(ranks, "run/step-1", 1, end=False)
    for turn in range(2):
        for writer in ranks:
            now = b"%d by %d" % (turn, writer.rank)
            writer.do(f"open('{NAME}.tmp', 'wb').write({now!r}); os.rename('{NAME}.tmp', '{NAME}')")
            for rank in ranks:
                assert rank.read(NAME) == now, (turn, writer.rank, rank.rank)
    save(ranks, "run/step-1", 1)
    for node in three:
        node.wait_for("run/step-1")
    check("run/step-1", 3, 1)
    with open(os.path.join(BACK, NAME), "rb") as file:
        assert file.read() == b"1 by 2"
    for rank in ranks:
        rank.leave()
    for node in three:
        node.leave()
assert staged() == [], staged()
