#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# What people are told of a checkpoint that several nodes write to: which they are, by label; who
# sees its end; who has files of it open, or has not voted; and, when it fails, which node was
# waited for, and which one has recorded that.

import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import Rank, content, nodes, save, wait


def of(node, unit):
    with open(node.path(".ckptfs/status.json"), encoding="utf-8") as file:
        pending = json.load(file)["pending"]
    found = [p for p in pending if p["path"] == unit]
    return found[0] if found else None


def shared(node, unit):
    return of(node, unit)["shared"]


def why(node, unit):
    return node.ckptfs("why", node.path(unit))


with nodes("one", "two", "three", options="lease_s=60,commit_timeout_s=10") as (one, two, three):
    ranks = [Rank(one, 0, 4), Rank(two, 1, 4), Rank(two, 2, 4), Rank(three, 3, 4)]
    # a Python that starts lists the directory that it is in, and what it finds there its node joins
    for rank in ranks:
        rank.do("pass")
    ranks[0].do("os.mkdir('step-1')")
    ranks[1].write("step-1/__1_0.distcp", content(1, 1))
    for rank in (ranks[2], ranks[3]):
        rank.do(
            f"files[0] = open('step-1/__{rank.rank}_0.distcp', 'wb', 0); files[0].write(b'some')"
        )

    # The node that sees the end knows who writes; the others, who knows.
    wait(
        lambda: "files are open on node two (rank 2), node three (rank 3)" in why(one, "step-1"),
        "who has files open",
    )
    assert shared(one, "step-1") == {
        "node": "one",
        "sees_end": "one",
        "state": "open",
        "others": [
            {"node": "two", "state": "writing", "open": [{"node": "two", "ranks": [2]}]},
            {"node": "three", "state": "writing", "open": [{"node": "three", "ranks": [3]}]},
        ],
    }, shared(one, "step-1")
    ranks[2].do(f"files[0].write({content(2, 1)!r}[4:]); files[0].close()")
    wait(
        lambda: "files are open on node three (rank 3)" in why(one, "step-1"),
        "who has files open yet",
    )
    assert [o["state"] for o in shared(one, "step-1")["others"]] == ["closed", "writing"]
    for node, here in ((two, ""), (three, "; open here: __3_0.distcp (of rank 3)")):
        told = of(node, "step-1")
        assert told["state"] == "open" and told["shared"] == {
            "node": node.name,
            "sees_end": "one",
            "state": "open",
            "others": [],
        }, told
        assert (
            told["waits_for"]
            == "its end, which is seen by node one (`ckptfs why` there tells more)" + here
        ), told
    for verb in (
        ("why", three.path("step-1")),
        ("status", three.mnt),
        ("top", "--count", "1", three.mnt),
    ):
        told = three.ckptfs(*verb)
        assert "this is node three: open; its end is seen by node one\n" in told, told
        assert "missing: rank" not in told, told
    for verb in (
        ("why", one.path("step-1")),
        ("status", one.mnt),
        ("top", "--count", "1", one.mnt),
    ):
        told = one.ckptfs(*verb)
        assert (
            "this is node one: open; it sees the end; node two: closed; node three: writing\n"
            in told
        ), told

    # Its end is seen, and a node does not vote.
    ranks[3].do("files[0].close()")
    wait(
        lambda: shared(one, "step-1")["others"][1]["state"] == "closed",
        "what three says of the close",
    )
    os.kill(three.pid, signal.SIGSTOP)
    ranks[0].write("step-1/.metadata.tmp", b"step 1")
    ranks[0].do("os.rename('step-1/.metadata.tmp', 'step-1/.metadata')")
    wait(
        lambda: "its end was seen; the vote of node three" in why(one, "step-1"),
        "the vote of node three alone",
    )
    assert [o["state"] for o in shared(one, "step-1")["others"]] == ["voted", "closed"]
    told = of(two, "step-1")
    assert told["waits_for"] == "the decision, which node one makes: this node has voted", told
    assert told["shared"]["state"] == "voted", told
    told = one.fails("step-1")
    assert (
        "nothing came for 10 s (commit_timeout_s) of what these nodes have of it: three (host "
        in told
    ), told
    told = two.fails("step-1")
    assert (
        "failed, as node one has recorded: " in told
        and "these nodes have of it: three (host " in told
    ), told
    os.kill(three.pid, signal.SIGCONT)
    told = three.fails("step-1")
    assert "failed, as node one has recorded: " in told, told
    for rank in ranks:
        rank.kill()

    # Of what is committed: how many they were.
    ranks = [
        Rank(one, 0, 4, restart=1),
        Rank(two, 1, 4, restart=1),
        Rank(two, 2, 4, restart=1),
        Rank(three, 3, 4, restart=1),
    ]
    save(ranks, "step-1", 2)
    for node in (one, two, three):
        node.wait_for("step-1")
        assert [
            line.split()[:1] + line.split()[3:5]
            for line in node.ckptfs("ls", node.mnt).splitlines()[1:-1]
        ] == [["committed", "4", "3"]], node.ckptfs("ls", node.mnt)
    for rank in ranks:
        rank.leave()
