#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A file of a checkpoint is written by who has it mapped, or open, on a node that has voted, while
# another has yet to: that waits for the decision and is refused, what is committed is what was
# voted on, and that node says what came too late. Who opens it anew, on any node, may change it.

import errno
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, check, content, nodes, save, staged, wait

BIG = 4 << 20
MAP = """
import mmap
fd = os.open(%r, os.O_CREAT | os.O_RDWR)
os.write(fd, %r)
files['m'] = mmap.mmap(fd, 0)
os.close(os.dup(fd)) # for ckptfs it is closed by that
files['fd'] = fd
"""
LATE = "files['m'][4096:4100] = b'torn'; files['m'].flush()", "os.pwrite(files['fd'], b'torn', 10)"


def refused():
    try:
        ranks[1].end()
    except OSError as e:
        assert e.errno == errno.ESTALE, e
    else:
        raise AssertionError("it went well")


def whole(name, want):
    for node in nodes_:
        node.wait_for(f"step-{step}")
    check(f"step-{step}", 3, step)
    for top in BACK, *(node.mnt for node in nodes_):
        with open(os.path.join(top, name), "rb") as file:
            assert file.read() == want, (top, name)


with nodes("one", "two") as (one, two), nodes("three", options="flush_bw=1M") as (three,):
    nodes_ = one, two, three
    ranks = [Rank(node, i, 3) for i, node in enumerate(nodes_)]
    for step in 1, 2:
        unit, name = f"step-{step}", f"step-{step}/__1_1.distcp"
        save(ranks, unit, step, end=False)
        ranks[1].do(MAP % (name, content(9, step)))
        ranks[2].do(f"open('{unit}/big', 'wb').write(bytes({BIG}))")
        ranks[0].do(
            f"open('{unit}/.metadata.tmp', 'wb').write(b'step {step}'); "
            f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')"
        )
        wait(lambda unit=unit: "voted" in two.ckptfs("why", two.path(unit)), "two's vote")
        ranks[1].begin(LATE[step - 1])
        assert not os.path.exists(os.path.join(BACK, unit)), "three has voted already"
        whole(name, content(9, step))
        refused()
        for late in LATE:
            ranks[1].begin(late)
            refused()
        whole(name, content(9, step))
        ranks[1].do("files['m'].close(); os.close(files['fd'])")
    with open(two.path(".ckptfs/failures.json"), encoding="utf-8") as file:
        told = [
            failure["path"]
            for failure in json.load(file)
            if "open the file again" in failure["message"]
        ]
    assert told == ["step-1", "step-2"], told

    # By a mapping, on another node than wrote it.
    ranks[0].do(
        f"""
import mmap
with open({name!r}, 'r+b') as file: files['m'] = mmap.mmap(file.fileno(), 0)
files['m'][:4] = b'anew'
"""
    )
    check(unit, 3, step)
    ranks[0].do("files['m'].close()")
    wait(lambda: open(os.path.join(BACK, name), "rb").read(4) == b"anew", "the change")
    whole(name, b"anew" + content(9, step)[4:])
    for rank in ranks:
        rank.leave()
    for node in nodes_:
        node.leave()
    assert staged() == [], staged()
