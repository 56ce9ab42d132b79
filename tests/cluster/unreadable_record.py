#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
"""A user has put a directory where a node's next record is to be. What he saves fails by its name,
and hides nothing of others: another checkpoint, of which the same nodes wait for records, is
committed meanwhile. A directory where the list of what a node has written is to be fails its
checkpoint alone. A decision that nobody can read holds up its checkpoint alone."""

import contextlib
import os
import re

from nodes import BACK, Rank, check, finish, nodes, save, staged, wait

TXN = os.path.join(BACK, f".ckptfs/txn/{os.getuid()}")


def joined():
    """Generations in which somebody has joined the root."""
    names = os.listdir(TXN) if os.path.exists(TXN) else []
    return [name[:32] for name in names if re.fullmatch(r"[0-9a-f]{32}\.log\.0\.0", name)]


def begun(ranks, unit):
    """The generation of a save that all @ranks take part in."""
    before = set(joined())
    save(ranks, unit, 1, end=False)
    (gen,) = wait(lambda: set(joined()) - before, "the second to join")
    return gen


def others_commit(one, two, job):
    """Meanwhile another job saves twice, on both nodes."""
    ranks = [Rank(one, 0, 2, job=job), Rank(two, 1, 2, job=job)]
    for step in (1, 2):
        save(ranks, f"{job}/step-{step}", step)
        for node in (one, two):
            node.wait_for(f"{job}/step-{step}")
        check(f"{job}/step-{step}", 2, step)
    for rank in ranks:
        rank.leave()


with nodes("one", "two", options="commit_timeout_s=5") as (one, two):
    bad = [Rank(one, 0, 2, job="bad"), Rank(two, 1, 2, job="bad")]
    gen = begun(bad, "bad/step-1")
    last = max(
        int(name.rsplit(".", 1)[1])
        for name in os.listdir(TXN)
        if re.fullmatch(gen + r"\.log\.0\.\d+", name)
    )
    for nr in range(last + 1, last + 8):
        with contextlib.suppress(FileExistsError):  # a report, meanwhile
            os.mkdir(f"{TXN}/{gen}.log.0.{nr}")
    others_commit(one, two, "good")
    bad[1].kill()
    for node in (one, two):
        node.fails("bad/step-1")
    bad[0].kill()

    # The list is long, so it has a file of its own.
    ranks = [Rank(one, 0, 2, job="list"), Rank(two, 1, 2, job="list")]
    save(ranks, "list/step-1", end=False)
    ranks[1].do("for n in range(200): open('list/step-1/part-%d' % n, 'wb').close()")
    for path in staged(BACK + "/list"):
        os.mkdir(path + "/.ckptfs-vote-1")
    finish(ranks, "list/step-1", 1)
    for node in (one, two):
        told = node.fails("list/step-1")
        assert "could not list what it has written" in told, told
    for rank in ranks:
        rank.kill()

# What waits for such a decision goes on when it is gone.
with nodes("one", "two") as (one, two):
    for nr, text in enumerate(("x", "commit", "aborted")):
        unit = f"odd/step-{nr}"
        ranks = [Rank(one, 0, 2, job="odd"), Rank(two, 1, 2, job="odd")]
        gen = begun(ranks, unit)
        with open(f"{TXN}/{gen}.decision", "w", encoding="utf-8") as file:
            file.write(f"ckptfs-record {len(text)}\n{text}")
        finish(ranks, unit, 1)
        others_commit(one, two, f"well-{nr}")
        os.unlink(f"{TXN}/{gen}.decision")
        one.wait_for(unit)
        check(unit, 2, 1)
        for rank in ranks:
            rank.leave()
