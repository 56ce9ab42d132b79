#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 400
# cpu: 20
# The daemon that began a checkpoint is killed, or is held up until it is taken for dead, at each
# step from its end to its name: on the backing are whole checkpoints, and nothing else; who is left
# says within the bound what became of it; and what was decided is there, at the latest when its
# node is mounted again.

import contextlib
import glob
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, CKPTFS, SECONDS, Rank, check, nodes, save, staged

TXN = BACK + f"/.ckptfs/txn/{os.getuid()}/"
STEPS = {
    "closed": lambda gen: "closed" in read(TXN + gen + ".log.0.*"),
    "prepared": lambda gen: glob.glob(TXN + gen + ".prepare"),
    "voted": lambda gen: "vote" in read(TXN + gen + ".log.0.*"),
    "listed": lambda gen: glob.glob(BACK + f"/.ckptfs-{gen}/.ckptfs-commit.json"),
    "decided": lambda gen: glob.glob(TXN + gen + ".decision"),
}


def read(pattern):
    text = ""
    for path in glob.glob(pattern):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            text += file.read()
    return text


def outcome(node, unit):
    """Of the wait for its end: committed, or why not."""
    ran = subprocess.run(
        [CKPTFS, "wait", "--timeout", str(SECONDS), node.path(unit)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    assert "is not there after" not in ran.stdout, (node.name, unit, ran.stdout)
    return not ran.returncode, ran.stdout


with nodes("one", "two", "three") as (one, two, three):
    step = 0
    for kind in (signal.SIGKILL, signal.SIGSTOP):
        for name, reached in STEPS.items():
            step += 1
            unit = f"step-{step}"
            ranks = [
                Rank(one, 0, 3, restart=step),
                Rank(two, 1, 3, restart=step),
                Rank(three, 2, 3, restart=step),
            ]
            save(ranks, unit, step, end=False)
            for rank in ranks[1:]:
                rank.do(f"result = os.listdir({unit!r})")
            gen = (
                staged()[-1:]
                and [
                    s
                    for s in staged()
                    if os.path.exists(TXN + os.path.basename(s)[8:] + ".open")
                    and not os.path.exists(TXN + os.path.basename(s)[8:] + ".decision")
                ][0]
            )
            gen = os.path.basename(gen)[8:]
            ranks[0].do(f"open('{unit}/.metadata.tmp', 'wb').write(b'step {step}')")
            ranks[0].begin(f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')")
            end = time.monotonic() + SECONDS
            while (
                not reached(gen)
                and not os.path.exists(os.path.join(BACK, unit))
                and time.monotonic() < end
            ):
                pass
            os.kill(one.pid, kind)
            told = {node.name: outcome(node, unit) for node in (two, three)}
            there = os.path.exists(os.path.join(BACK, unit))
            print(kind, name, there, told)
            assert told["two"][0] == told["three"][0] == there, (name, told, there)
            if there:
                check(unit, 3, step)
            if kind == signal.SIGKILL:
                for rank in ranks:
                    rank.kill()
                one.kill()
                one.mount()
            else:
                os.kill(one.pid, signal.SIGCONT)
                assert outcome(one, unit)[0] == there, name
                for rank in ranks:
                    rank.kill()
            assert there == os.path.exists(os.path.join(BACK, unit)), name
            if there:
                check(unit, 3, step)
            # The name is free, or can be saved anew.
            ranks = [
                Rank(n, i, 3, job="next", restart=step) for i, n in enumerate((three, one, two))
            ]
            save(ranks, unit, step + 100)
            for node in (one, two, three):
                node.wait_for(unit)
            check(unit, 3, step + 100)
            for rank in ranks:
                rank.leave()
    for node in (one, two, three):
        node.leave()
