#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: root
# timeout: 240
# A backing that is full when one node writes back what it has: the checkpoint fails on all nodes,
# with that reason and by the name of that node, nothing of it is published, and what it took is
# free again; so the next save of the name commits, as soon as there is room.

import contextlib
import errno
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, check, nodes, save, wait

MB = 1 << 20

os.makedirs(BACK)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m,mode=755", "tmpfs", BACK], check=True)


def room():
    stat = os.statvfs(BACK)
    return stat.f_bavail * stat.f_frsize


def fill():
    with open(BACK + "/filler", "wb", buffering=0) as file:
        for step in MB, 4096:
            with contextlib.suppress(OSError):
                while file.write(bytes(step)):
                    pass


# Two writes back slowly, so that the room is gone when it comes to most of what it has.
with (
    nodes("one", options="on_full=fail") as (one,),
    nodes("two", options="on_full=fail,host_cache_size=24M,flush_bw=2M") as (two,),
):
    ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
    save(ranks, "step-1", 1)
    for node in (one, two):
        node.wait_for("step-1")
    before = room()
    for step, closed in ((2, True), (3, False)):
        unit = f"step-{step}"
        save(ranks, unit, step, end=False)
        wait(
            lambda unit=unit: all(
                "flush" not in node.ckptfs("why", node.path(unit)) for node in (one, two)
            ),
            "what is small",
        )
        ranks[1].begin(f"with open('{unit}/big', 'wb') as f: f.write(bytes({12 * MB}))")
        if closed:
            ranks[1].end()
            ranks[0].do(
                f"open('{unit}/.metadata.tmp', 'wb').write(b'x'); "
                f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')"
            )
        fill()
        for node in (one, two):
            why = node.fails(unit)
            assert "No space left" in why, why
            if node is one:
                assert "as node two has recorded" in why, why
            assert not os.path.exists(node.path(unit)), node.name
        if not closed:
            try:
                ranks[1].end()
            except OSError as e:
                assert e.errno in (errno.ENOSPC, errno.EIO), e
        assert not os.path.exists(os.path.join(BACK, unit))
        check("step-1", 2, 1)
        os.unlink(BACK + "/filler")
        wait(lambda: room() > before - MB, "the room of what failed")
        for rank in ranks:
            rank.kill()
        ranks = [Rank(one, 0, 2, restart=step), Rank(two, 1, 2, restart=step)]
    save(ranks, "step-2", 4)
    for node in (one, two):
        node.wait_for("step-2")
    check("step-2", 2, 4)
    check("step-1", 2, 1)
    for rank in ranks:
        rank.leave()
    for node in (one, two):
        node.leave()
