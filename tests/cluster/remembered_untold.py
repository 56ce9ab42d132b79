#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# In a save over an older one a rank on another node than the root's replaces a symlink, and moves
# an ordinary file over one of the older: of such names no node tells what they hold. The root's
# client has seen both right before, and what is committed is what has the names, all the same.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Node, Rank, check, nodes, save, staged, wait
from remembering import client

UNIT = "run/step"


def make(node, options):
    return Node(node, options, client(node, names=3, absent=0, attributes=3))


with nodes("one", "two", make=make) as (one, two):
    ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
    for step in range(1, 3):
        save(ranks, UNIT, step, end=False)
        ranks[1].write("run/notes.tmp", b"of %d" % step)
        for staging in os.listdir(os.path.join(BACK, "run")) if step > 1 else []:
            if staging.startswith(".ckptfs-"):
                # What nodes tell of it knows by then: only of the other two it remembers what was.
                at = os.path.join("run", staging, "__1_0.distcp")
                wait(
                    lambda at=at: (
                        os.stat(os.path.join(one.backing, at)).st_ino
                        == os.stat(os.path.join(BACK, at)).st_ino
                    ),
                    "the time to pass",
                )
                assert [
                    os.lstat(os.path.join(one.backing, "run", staging, name)).st_ino
                    for name in ("link", "config.json")
                ]
        ranks[1].do(f"os.rename('run/notes.tmp', '{UNIT}/config.json')")
        ranks[1].do(
            f"os.symlink('target-{step}', '{UNIT}/link.tmp'); "
            f"os.rename('{UNIT}/link.tmp', '{UNIT}/link')"
        )
        save([ranks[0]], UNIT, step)
        for node in (one, two):
            node.wait_for(UNIT)
        listed = {f["path"]: f.get("size", f.get("symlink")) for f in check(UNIT, 2, step)["files"]}
        assert listed["config.json"] == len(b"of %d" % step) and "link" in listed, listed
        with open(os.path.join(BACK, UNIT, "config.json"), "rb") as file:
            assert file.read() == b"of %d" % step
        assert os.readlink(os.path.join(BACK, UNIT, "link")) == f"target-{step}"
    for rank in ranks:
        rank.leave()
    for node in (one, two):
        node.leave()
assert staged() == [], staged()
