#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
"""A user has put a directory where a node's next record is to be. What he saves fails by its name,
and hides nothing of others: another checkpoint, of which the same nodes wait for records, is
committed meanwhile. A directory where the list of what a node has written is to be fails its
checkpoint alone."""

import contextlib
import os
import re

from nodes import BACK, Rank, check, nodes, save, staged, wait

TXN = os.path.join(BACK, f".ckptfs/txn/{os.getuid()}")


def joined():
    """Generations in which somebody has joined the root."""
    return [name[:32] for name in os.listdir(TXN) if re.fullmatch(r"[0-9a-f]{32}\.log\.0\.0", name)]


with nodes("one", "two", options="commit_timeout_s=5") as (one, two):
    bad = [Rank(one, 0, 2, job="bad"), Rank(two, 1, 2, job="bad")]
    save(bad, "bad/step-1", 1, end=False)
    wait(joined, "the second to join")
    (gen,) = joined()
    last = max(
        int(name.rsplit(".", 1)[1])
        for name in os.listdir(TXN)
        if re.fullmatch(gen + r"\.log\.0\.\d+", name)
    )
    for nr in range(last + 1, last + 8):
        with contextlib.suppress(FileExistsError):  # a report, meanwhile
            os.mkdir(f"{TXN}/{gen}.log.0.{nr}")
    good = [Rank(one, 0, 2, job="good"), Rank(two, 1, 2, job="good")]
    for step in (1, 2):
        save(good, f"good/step-{step}", step)
        for node in (one, two):
            node.wait_for(f"good/step-{step}")
        check(f"good/step-{step}", 2, step)
    for rank in good:
        rank.leave()
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
    ranks[0].do(
        "open('list/step-1/.metadata.tmp', 'wb').close(); "
        "os.rename('list/step-1/.metadata.tmp', 'list/step-1/.metadata')"
    )
    for node in (one, two):
        told = node.fails("list/step-1")
        assert "could not list what it has written" in told, told
    for rank in ranks:
        rank.kill()
