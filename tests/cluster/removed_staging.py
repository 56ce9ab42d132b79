#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Somebody removes, on the backing, what a job is saving: who looks for it on another node waits for
# a while, as caches may be late, and is told then what is missing and how the name becomes free;
# and so it does.

import errno
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, check, content, nodes, save, staged, wait

with nodes("one", "two", options="commit_timeout_s=2") as (one, two):
    ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
    ranks[0].do("os.mkdir('step-1')")
    ranks[0].write("step-1/__0_0.distcp", content(0, 1))
    (staging,) = staged()
    shutil.rmtree(staging)
    try:
        ranks[1].do("os.stat('step-1')")
    except OSError as e:
        assert e.errno == errno.EIO, e
    else:
        raise AssertionError("it is there")
    with open(two.path(".ckptfs/failures.json"), encoding="utf-8") as file:
        told = file.read()
    assert "is being written by node one" in told and os.path.basename(staging) in told, told
    one.ckptfs("commit", "--abandon", one.path("step-1"))
    wait(lambda: not ranks[1].do("result = os.path.exists('step-1')"), "the name to be free")
    for rank in ranks:
        rank.kill()
    ranks = [Rank(two, 0, 2, restart=1), Rank(one, 1, 2, restart=1)]
    save(ranks, "step-1", 2)
    for node in (one, two):
        node.wait_for("step-1")
    check("step-1", 2, 2)
    for rank in ranks:
        rank.leave()
    for node in (one, two):
        node.leave()
