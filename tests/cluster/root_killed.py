#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 900
# cpu: 40
# The daemon that began a checkpoint is killed when all have voted, before it has decided: another
# node commits the checkpoint, each time. CKPTFS_TEST_COUNT: so many times.

import contextlib
import glob
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, check, nodes, save, staged, wait

TXN = BACK + f"/.ckptfs/txn/{os.getuid()}/"


def entries(gen, what):
    """Of the root's log, in their order: from which slot, and the rest."""
    found = []
    for nr in range(32):  # there may be gaps; and one that is being made has another name yet
        with (
            contextlib.suppress(FileNotFoundError),
            open(f"{TXN}{gen}.log.0.{nr}", encoding="utf-8") as file,
        ):
            found += re.findall(rf"^{what} (\d+) (.*)", file.read(), re.MULTILINE)
    return found


def voters(gen):
    return {slot for slot, rest in entries(gen, "vote")}


def have_closed(gen):
    """Have both others told that they have nothing open?"""
    last = dict(entries(gen, "report"))
    return len(last) == 2 and all('"open":false' in rest for rest in last.values())


def open_generation():
    return [
        gen
        for gen in (os.path.basename(path)[len(".ckptfs-") :] for path in staged())
        if os.path.exists(TXN + gen + ".open") and not os.path.exists(TXN + gen + ".decision")
    ][0]


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
