#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A child that a rank has forked on the second node keeps the descriptor of a file of the
# checkpoint: what it writes before the end is part of that, also when the rank is gone; after that
# it holds up no commit, and can spoil none.

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, TMP, Rank, content, nodes, staged

# The child does what it is told through a pipe that outlives the rank, and answers through another.
FORK = """
files['f'] = open('%s/__1_0.distcp', 'wb', 0)
files['f'].write(%r)
result = os.fork()
if result == 0:
    orders, answers = os.open(%r, os.O_RDONLY), os.open(%r, os.O_WRONLY)
    os.dup2(os.open('/dev/null', os.O_RDWR), 0)
    os.dup2(0, 1)
    while True:
        order = os.read(orders, 1)
        try:
            answer = os.write(files['f'].fileno(), b'more') if order == b'w' else 0
        except OSError as e:
            answer = -e.errno
        if order != b'w':
            files['f'].close()
        os.write(answers, b'%%d\\n' %% answer)
        if order != b'w':
            os._exit(0)
"""


class Child:
    def __init__(self, unit, step):
        self.pipes = [os.path.join(TMP, name) for name in (f"orders.{step}", f"answers.{step}")]
        for pipe in self.pipes:
            os.mkfifo(pipe)
        self.pid = ranks[1].do(FORK % (unit, content(1, step), *self.pipes))
        self.orders, self.answers = open(self.pipes[0], "wb", 0), open(self.pipes[1], "rb", 0)

    def do(self, order):
        self.orders.write(order)
        return int(self.answers.readline())


def begin(step):
    unit = f"step-{step}"
    ranks[0].do(f"os.mkdir({unit!r})")
    ranks[0].write(unit + "/__0_0.distcp", content(0, step))
    return unit, Child(unit, step)


def end(unit, step):
    ranks[0].do(
        f"open('{unit}/.metadata.tmp', 'wb').write(b'step {step}'); "
        f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')"
    )


def committed(unit, step, more=b""):
    for node in (one, two):
        node.wait_for(unit)
        with open(node.path(unit, "__1_0.distcp"), "rb") as file:
            assert file.read() == content(1, step) + more, node.name
    with open(os.path.join(BACK, unit, "__1_0.distcp"), "rb") as file:
        assert file.read() == content(1, step) + more
    one.ckptfs("verify", os.path.join(BACK, unit))


with nodes("one", "two") as (one, two):
    for step, ends in enumerate(("close", "leave"), 1):
        # It has it until the commit, and longer.
        ranks = [Rank(one, 0, 2, restart=step), Rank(two, 1, 2, restart=step)]
        unit, child = begin(step)
        if ends == "close":
            ranks[1].do("files['f'].close()")
        else:
            ranks[1].leave()
        end(unit, step)
        committed(unit, step)
        assert child.do(b"w") == -errno.ESTALE
        assert child.do(b"c") == 0
        committed(unit, step)

        for rank in ranks if ends == "close" else ranks[:1]:
            rank.leave()

        # The rank has ended; the child writes, and closes, before the end.
        step += 2
        ranks = [Rank(one, 0, 2, restart=step), Rank(two, 1, 2, restart=step)]
        unit, child = begin(step)
        if ends == "close":
            ranks[1].do("files['f'].close()")
        ranks[1].leave()
        assert child.do(b"w") == 4
        assert child.do(b"c") == 0
        end(unit, step)
        committed(unit, step, b"more")
        ranks[0].leave()
    for node in (one, two):
        node.leave()
    assert staged() == [], staged()
