#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# A directory of runs is removed and made anew by way of one node, right before a job begins again:
# on the other node, where the former one was known a moment ago, its ranks make their directories
# and save as if nothing had been.

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, nodes


def each(ranks, code):
    for rank in ranks:
        rank.begin(code % {"rank": rank.rank})
    for rank in ranks:
        rank.end()


with nodes("one", "two") as (one, two):
    for run in range(4):
        if run:
            shutil.rmtree(one.path("run"))
        os.makedirs(one.path("run"))
        ranks = [Rank(one, 0, 2, restart=run), Rank(two, 1, 2, restart=run)]
        each(ranks[::-1], "os.makedirs('run/checkpoints', exist_ok=True)")
        unit = "run/checkpoints/checkpoint_0"
        each(ranks, f"os.makedirs('{unit}', exist_ok=True)")
        each(ranks, f"open('{unit}/random_states_%(rank)d.pkl', 'wb').write(b'{run}')")
        ranks[0].do(f"open('{unit}/model.safetensors', 'wb').write(b'x' * 1000)")
        for rank in ranks:
            rank.leave()
        for node in one, two:
            node.wait_for(unit)
        for rank in range(2):
            with open(os.path.join(BACK, unit, f"random_states_{rank}.pkl"), "rb") as file:
                assert file.read() == b"%d" % run
