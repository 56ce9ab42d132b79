#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A checkpoint that gets its final name by a rename (Orbax) has that on all nodes, and ranks on
# others write to it under that; a file that is a checkpoint by itself is read on another node,
# whole, as soon as who saved it has closed it, also over an older one of the name.

import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, content, nodes, staged

with nodes("one", "two") as (one, two):
    ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]

    for step in range(3):
        ranks[0].do("import os; os.makedirs('files', exist_ok=True)")
        ranks[0].write("files/best.pt.tmp", content(0, step))
        ranks[0].do("os.rename('files/best.pt.tmp', 'files/best.pt')")
        assert ranks[1].read("files/best.pt") == content(0, step), step
        ranks[0].write("files/model.safetensors2.pt", content(1, step))
        assert ranks[1].read("files/model.safetensors2.pt") == content(1, step), step

    tmp = "7.orbax-checkpoint-tmp-1"
    ranks[0].do(f"os.makedirs('run/{tmp}/default')")
    assert ranks[1].do(f"result = os.listdir('run/{tmp}')") == ["default"]
    for rank in ranks:
        rank.write(f"run/{tmp}/default/d{rank.rank}", content(rank.rank, 7))
    ranks[0].write(f"run/{tmp}/_CHECKPOINT_METADATA", b"{}")
    ranks[0].do(f"os.rename('run/{tmp}', 'run/7')")
    assert sorted(ranks[1].do("result = os.listdir('run/7')")) == [
        "_CHECKPOINT_METADATA",
        "default",
    ]
    for node in (one, two):
        node.wait_for("run/7")
        assert not os.path.exists(node.path("run", tmp)), node.name
    for rank in ranks:
        assert rank.read(f"run/7/default/d{1 - rank.rank}") == content(1 - rank.rank, 7)
        rank.leave()
    one.ckptfs("verify", BACK + "/run/7")
    with open(BACK + "/run/7/.ckptfs-commit.json", encoding="utf-8") as file:
        assert json.load(file)["world"] == {"ranks": 2, "nodes": 2}
    for node in (one, two):
        node.leave()
    assert staged() == [], staged()
