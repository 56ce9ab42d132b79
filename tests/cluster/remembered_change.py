#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# A checkpoint is changed right after it was committed, by a rank whose node has seen its files
# before the other nodes wrote them anew: the change begins with what was committed, not with what
# that node's client of the backing remembers.

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, check, content, nodes, save, staged
from remembering import make

UNIT = "run/step"


def look(node):
    """By its client, below the mount, at all that is staged or there."""
    for path in glob.glob(os.path.join(node.backing, "run", ".ckptfs-*", "__*")) + glob.glob(
        os.path.join(node.backing, UNIT, "__*")
    ):
        with open(path, "rb") as file:
            assert file.read()


with nodes("one", "two", "three", make=make) as three:
    ranks = [Rank(node, rank, 3) for rank, node in enumerate(three)]
    save(ranks, UNIT, 1)
    for node in three:
        node.wait_for(UNIT)
    for step in range(2, 5):
        ranks[0].write(UNIT + "/__0_0.distcp", content(0, step))
        look(ranks[0].node)
        for rank in ranks[1:]:
            rank.write(f"{UNIT}/__{rank.rank}_0.distcp", content(rank.rank, step))
        ranks[0].do(
            f"open('{UNIT}/.metadata.tmp', 'wb').write(b'step {step}'); "
            f"os.rename('{UNIT}/.metadata.tmp', '{UNIT}/.metadata')"
        )
        ranks[0].node.wait_for(UNIT)
        ranks[0].write(UNIT + "/note", b"of %d" % step)
        ranks[0].node.ckptfs("commit", ranks[0].node.path(UNIT))
        for node in three:
            node.wait_for(UNIT)
        check(UNIT, 3, step)
        with open(os.path.join(BACK, UNIT, "note"), "rb") as file:
            assert file.read() == b"of %d" % step
    for rank in ranks:
        rank.leave()
    for node in three:
        node.leave()
assert staged() == [], staged()
