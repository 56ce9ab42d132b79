#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 240
# A daemon that was held up for so long that the others took it for dead obeys what they have
# decided meanwhile: nothing of its generation is ever published, also if the name was saved anew.
# Its ranks are told.

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, check, nodes, save, wait


def pause(node):
    os.kill(node.pid, signal.SIGSTOP)


def go_on(node):
    os.kill(node.pid, signal.SIGCONT)


with nodes("one", "two", "three") as (one, two, three):
    # One that has still to vote.
    ranks = [Rank(one, 0, 3), Rank(two, 1, 3), Rank(three, 2, 3)]
    save(ranks, "step-1", 1, end=False)
    pause(three)
    ranks[0].do(
        "open('step-1/.metadata.tmp', 'wb').write(b'step 1'); "
        "os.rename('step-1/.metadata.tmp', 'step-1/.metadata')"
    )
    for node in (one, two):
        told = node.fails("step-1")
        assert "shows no life" in told, told
    for rank in ranks[:2]:
        rank.kill()
    again = [Rank(one, 0, 2, restart=1), Rank(two, 1, 2, restart=1)]
    save(again, "step-1", 2)
    for node in (one, two):
        node.wait_for("step-1")
    check("step-1", 2, 2)
    go_on(three)
    ranks[2].begin("os.stat('step-1/__2_0.distcp')")
    try:
        ranks[2].end()
    except OSError as e:
        print("rank 2:", e)
    ranks[2].kill()
    wait(lambda: three.status(), "three to answer")
    check("step-1", 2, 2)
    for rank in again:
        rank.leave()

    # The one that began it, when the end was seen.
    ranks = [Rank(one, 0, 3, restart=2), Rank(two, 1, 3, restart=2), Rank(three, 2, 3, restart=2)]
    save(ranks, "step-2", 1, end=False)
    ranks[0].do("open('step-2/.metadata.tmp', 'wb').write(b'step 1')")
    pause(one)
    for node in (two, three):
        told = node.fails("step-2")
        assert "shows no life" in told, told
    for rank in ranks[1:]:
        rank.kill()
    again = [Rank(two, 0, 2, restart=3), Rank(three, 1, 2, restart=3)]
    save(again, "step-2", 5)
    for node in (two, three):
        node.wait_for("step-2")
    go_on(one)
    told = one.fails("step-2")
    print(told)
    ranks[0].begin("os.mkdir('step-9')")
    try:
        ranks[0].end()
        raise AssertionError("rank 0 was not told")
    except OSError as e:
        print("rank 0:", e)
    ranks[0].kill()
    check("step-2", 2, 5)
    check("step-1", 2, 2)
