#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# What is recorded of the name of a checkpoint is removed while it is being saved, as by a node that
# was held up, and counts as dead, when it clears up what it had left. Then a rank on another node
# may begin one of its own: neither is committed in part.

import glob
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, content, nodes

with nodes("one", "two") as (one, two):
    ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
    ranks[0].do("os.mkdir('step-1')")
    ranks[0].write("step-1/__0_0.distcp", content(0, 1))
    names = glob.glob(BACK + f"/.ckptfs/txn/{os.getuid()}/*.name")
    assert len(names) == 1, names
    os.unlink(names[0])
    ranks[1].do("os.makedirs('step-1', exist_ok=True)")
    ranks[1].write("step-1/__1_0.distcp", content(1, 1))
    ranks[0].do(
        "open('step-1/.metadata.tmp', 'wb').write(b'step 1'); "
        "os.rename('step-1/.metadata.tmp', 'step-1/.metadata')"
    )
    told = one.fails("step-1")
    assert "its name was lost" in told, told
    assert not os.path.lexists(BACK + "/step-1")
    for rank in ranks:
        rank.kill()
