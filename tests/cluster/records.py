#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# What nodes record of the checkpoints that they save together, in .ckptfs/txn, goes while they are
# mounted: of those that are committed, that fail, that are renamed and that are removed; of names
# that are saved to once, and of one that is saved to all the time. So does what nodes have left
# that were killed.

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, CKPTFS, SECONDS, Rank, check, nodes, save, wait

TXN = BACK + f"/.ckptfs/txn/{os.getuid()}"


def records(kind="*"):
    return glob.glob(f"{TXN}/*.{kind}")


def none_is_left():
    wait(lambda: not os.listdir(TXN), "the records to go")


def fsck():
    subprocess.run(
        [CKPTFS, "fsck", "--discard", BACK], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS
    )


def start(nodes, restart):
    return [Rank(node, rank, len(nodes), restart=restart) for rank, node in enumerate(nodes)]


def commit(ranks, unit, step):
    save(ranks, unit, step)
    for rank in ranks:
        rank.node.wait_for(unit)


with nodes("one", "two") as (one, two):
    both = (one, two)
    ranks = start(both, 0)
    for step in range(12):
        commit(ranks, f"step-{step}", step)
        if step >= 2:
            ranks[0].do(f"import shutil; shutil.rmtree('step-{step - 2}')")
    none_is_left()

    most = 0
    for step in range(20):
        commit(ranks, "last", step)
        most = max(most, len(records("name")))
    assert most < 20, f"{most} records of one name"
    check("last", 2, 19)
    none_is_left()

    for step in range(3):
        save(ranks, "tmp", step, end=False)
        ranks[0].do(
            f"os.rename('tmp', 'moved-{step}'); "
            f"open('moved-{step}/.metadata.tmp', 'wb').write(b'step {step}')"
        )
        ranks[0].do(f"os.rename('moved-{step}/.metadata.tmp', 'moved-{step}/.metadata')")
        for node in both:
            node.wait_for(f"moved-{step}")
    none_is_left()

    # Of those that fail.
    for restart in range(1, 4):
        save(ranks, f"failed-{restart}", restart, end=False)
        ranks[restart % 2].kill()
        for node in both:
            node.fails(f"failed-{restart}")
        for rank in ranks:
            rank.kill()
        ranks = start(both, restart)
    none_is_left()

    # Of nodes that were killed, before and after the commit, and are mounted again.
    for restart in range(4, 8):
        unit = f"killed-{restart}"
        save(ranks, unit, restart, end=restart % 2)
        node = both[restart // 2 % 2]
        if restart % 2:
            for other in both:
                other.wait_for(unit)
        node.kill()
        for rank in ranks:
            rank.kill()
        node.mount()
        ranks = start(both, restart)
    commit(ranks, "step-1", 1)
    none_is_left()

    # And of both: what they have left of names is there as long as one of them may live, if nobody
    # mounts.
    commit(ranks, "step-2", 2)
    for rank in ranks:
        rank.kill()
    for node in both:
        node.kill()
    fsck()
    assert len(records("name")) == 1, records()
    one.mount()
    one.leave()
    fsck()
    assert os.listdir(TXN) == [], os.listdir(TXN)
    for node in both:
        node.mount()
