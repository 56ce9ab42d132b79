#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# What a rank has closed on one node has its size on the others from there on, whatever of it is on
# the backing by then, and its time when it can be read; also what was there before, and was cut,
# written once more or changed in the middle.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, check, nodes, save

SIZE = 12000000


def looks(rank, path):
    return rank.do(f"s = os.stat({path!r}); result = [s.st_size, s.st_ino]")


def same(path, content, how="wb"):
    """As closed by the second rank, it is seen by the first; and as read, it has its time, too."""
    ranks[1].do(f"with open({path!r}, {how!r}) as f: f.write({content!r})")
    assert looks(ranks[0], path) == looks(ranks[1], path), path
    top, name = os.path.split(path)
    assert (
        ranks[0].do(f"result = {{e.name: e.stat().st_size for e in os.scandir({top!r})}}[{name!r}]")
        == looks(ranks[1], path)[0]
    )
    got = ranks[0].read(path)
    assert got == ranks[1].read(path)
    assert ranks[0].do(f"result = os.stat({path!r}).st_mtime_ns") == ranks[1].do(
        f"result = os.stat({path!r}).st_mtime_ns"
    ), path
    return got


with nodes("one", "two", options=f"flush_bw={SIZE // 3}") as (one, two):
    ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
    ranks[0].do("os.mkdir('step-1')")
    ranks[0].write("step-1/__0_0.distcp", b"a checkpoint of DCP")
    ranks[1].do(f"with open('step-1/large', 'wb') as f: f.write(bytes({SIZE}))")
    assert looks(ranks[0], "step-1/large")[0] == SIZE
    # This one comes behind it.
    assert same("step-1/a", b"a" * 30000) == b"a" * 30000
    # While it is written it is as it was closed last, or as what was written by now.
    ranks[1].do("files['a'] = open('step-1/a', 'ab', 0); files['a'].write(b'b' * 1000)")
    assert looks(ranks[0], "step-1/a")[0] in (30000, 31000)
    ranks[1].do("files['a'].close()")
    assert same("step-1/a", b"c" * 1000, "ab") == b"a" * 30000 + b"b" * 1000 + b"c" * 1000
    # Who adds to it on another node adds to all of it.
    ranks[1].do("with open('step-1/b', 'wb') as f: f.write(b'b' * 6000000)")
    ranks[0].do("with open('step-1/b', 'ab') as f: f.write(b'more')")
    for rank in reversed(ranks):
        assert rank.read("step-1/b") == b"b" * 6000000 + b"more", rank.rank
    assert same("step-1/a", b"short") == b"short"
    assert same("step-1/a", b"u", "r+b") == b"uhort"
    save(ranks, "step-1", 1)
    for node in (one, two):
        node.wait_for("step-1")
    check("step-1", 2, 1)
    assert looks(ranks[1], "step-1/a") == looks(ranks[0], "step-1/a")

    # Over what is committed, which the first one has just seen.
    for path in ("step-1/a", "step-1/__0_0.distcp"):
        assert ranks[0].read(path) != b"new" * 10000
        assert same(path, b"new" * 10000) == b"new" * 10000, path
    ranks[1].do("os.utime('step-1/a', (1000, 2000))")
    assert ranks[0].do("result = os.stat('step-1/a').st_mtime") == 2000
    for rank in ranks:
        rank.kill()
