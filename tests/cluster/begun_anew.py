#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# A directory of runs is removed and made anew by way of one node, right before a job begins again: on the other node, where the
# former one was known a moment ago, its ranks make their directories and save as if nothing had been.

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


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
        each(ranks, "os.makedirs('%s', exist_ok=True)" % unit)
        each(ranks, "open('%s/random_states_%%(rank)d.pkl', 'wb').write(b'%d')" % (unit, run))
        ranks[0].do("open('%s/model.safetensors', 'wb').write(b'x' * 1000)" % unit)
        for rank in ranks:
            rank.leave()
        for node in one, two:
            node.wait_for(unit)
        for rank in range(2):
            with open(os.path.join(BACK, unit, "random_states_%d.pkl" % rank), "rb") as file:
                assert file.read() == b"%d" % run
