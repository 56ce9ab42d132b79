#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# The root's client of the backing has seen each file of a checkpoint right before the rank on
# another node wrote it anew, and so remembers it when the checkpoint commits: what is committed is
# what the ranks wrote last, and says who did.

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, check, content, nodes, staged
from remembering import make

UNIT = "run/step-1"
WRITTEN = {
    ".metadata": ("one", 0),
    "__0_0.distcp": ("one", 0),
    "__1_0.distcp": ("two", 1),
    "__2_0.distcp": ("three", 2),
}


def look(node, name):
    """By its client, below the mount: at what is staged, under the name there and that of what is
    replaced."""
    for path in glob.glob(os.path.join(node.backing, "run", ".ckptfs-*", name)) + [
        os.path.join(node.backing, UNIT, name)
    ]:
        os.stat(path)
        with open(path, "rb") as file:
            assert file.read()


def save_looked_at(ranks, step):
    ranks[0].do(f"os.makedirs({UNIT!r}, exist_ok=True)")
    for rank in ranks:
        name = f"__{rank.rank}_0.distcp"
        if rank.rank and step > 1:
            assert ranks[0].read(os.path.join(UNIT, name)) == content(rank.rank, step - 1)
            look(ranks[0].node, name)
        rank.write(os.path.join(UNIT, name), content(rank.rank, step))
    ranks[0].do(
        f"open('{UNIT}/.metadata.tmp', 'wb').write(b'step {step}'); "
        f"os.rename('{UNIT}/.metadata.tmp', '{UNIT}/.metadata')"
    )


with nodes("one", "two", "three", make=make) as three:
    ranks = [Rank(node, rank, 3) for rank, node in enumerate(three)]
    for step in range(1, 4):
        save_looked_at(ranks, step)
        for node in three:
            node.wait_for(UNIT)
        made = check(UNIT, 3, step)
        assert {f["path"]: (f["node"], f.get("rank")) for f in made["files"]} == WRITTEN, (
            step,
            made["files"],
        )
    for rank in ranks:
        rank.leave()
    for node in three:
        node.leave()
assert staged() == [], staged()
