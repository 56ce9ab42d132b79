#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 900
# cpu: 40
# The daemon that began a checkpoint is killed when all have voted, before it has decided: another
# node commits the checkpoint, each time. CKPTFS_TEST_COUNT: so many times.

import glob
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, TXN, Rank, check, have_closed, nodes, open_generation, save, voters, wait

with nodes("one", "two", "three") as (one, two, three):
    for step in range(1, 1 + int(os.environ.get("CKPTFS_TEST_COUNT", "2"))):
        unit = f"step-{step}"
        ranks = [
            Rank(one, 0, 3, restart=step),
            Rank(two, 1, 3, restart=step),
            Rank(three, 2, 3, restart=step),
        ]
        save(ranks, unit, step, end=False)
        gen = open_generation()
        wait(lambda gen=gen: have_closed(gen), "the reports of the others")
        # The root votes, and waits for a node that is held up. Then the root is, and that node
        # votes.
        os.kill(two.pid, signal.SIGSTOP)
        ranks[0].do(f"open('{unit}/.metadata.tmp', 'wb').write(b'step {step}')")
        ranks[0].do(f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')")
        wait(lambda gen=gen: "0" in voters(gen), "the vote of the root")
        os.kill(one.pid, signal.SIGSTOP)
        os.kill(two.pid, signal.SIGCONT)
        wait(lambda gen=gen: len(voters(gen)) == 3, "all votes")
        assert not os.path.exists(TXN + gen + ".decision")
        os.kill(one.pid, signal.SIGKILL)
        for node in (two, three):
            node.wait_for(unit)
        check(unit, 3, step)
        assert not glob.glob(os.path.join(BACK, unit, ".ckptfs-[vc]*-*")), os.listdir(
            os.path.join(BACK, unit)
        )
        for rank in ranks[1:]:
            rank.leave()
        ranks[0].kill()
        one.kill()
        one.mount()
        check(unit, 3, step)
    for node in (one, two, three):
        node.leave()
