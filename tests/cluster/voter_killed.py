#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 600
# The node of rank 0 did not begin the checkpoint. Its daemon is killed when it has voted, before
# the decision. A link that names the checkpoint, and the removal of the one before, waited there:
# the node that commits does both.

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import (
    BACK,
    TXN,
    Rank,
    check,
    finish,
    have_closed,
    nodes,
    open_generation,
    save,
    voters,
    wait,
)

LATEST = os.path.join(BACK, "latest")

with nodes("one", "two", "three") as (one, two, three):
    first = [Rank(two, 0, 3), Rank(one, 1, 3), Rank(three, 2, 3)]
    save(first, "step-1", 1)
    first[0].do("os.symlink('step-1', 'latest')")
    wait(lambda: os.path.islink(LATEST), "the first link")
    first[1].do("os.mkdir('step-2')")
    save(first, "step-2", 2, end=False)
    gen = open_generation()
    first[0].do("os.symlink('step-2', 'latest.tmp'); os.rename('latest.tmp', 'latest')")
    first[0].do("import shutil; shutil.rmtree('step-1')")
    assert os.readlink(LATEST) == "step-1" and os.path.isdir(os.path.join(BACK, "step-1"))
    wait(lambda: have_closed(gen), "the reports of the others")
    # The root waits for the vote of a node that is held up.
    os.kill(three.pid, signal.SIGSTOP)
    finish(first, "step-2", 2)
    wait(lambda: voters(gen) - {"0"}, "the vote of the node of rank 0")
    assert not os.path.exists(TXN + gen + ".decision")
    os.kill(two.pid, signal.SIGKILL)
    os.kill(three.pid, signal.SIGCONT)
    one.wait_for("step-2")
    check("step-2", 3, 2)
    wait(lambda: os.readlink(LATEST) == "step-2", "the second link")
    wait(lambda: not os.path.exists(os.path.join(BACK, "step-1")), "the removal")
    for rank in first[1:]:
        rank.leave()
    first[0].kill()
    two.kill()
    two.mount()
    assert sorted(os.listdir(two.mnt)) == ["latest", "step-2"], os.listdir(two.mnt)
    for node in (one, two, three):
        node.leave()
