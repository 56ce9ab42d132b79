#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# needs: root
# timeout: 400
# Three nodes with addresses of their own agree by etcd, and one is cut off from it: before the end
# is seen, before it has voted, and after it has. What lacks its vote fails on all the others, by a
# reason that names it; what has it is committed. And when it is back it does what was decided.

import json
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
import network

network.enter()
import etcd
from nodes import BACK, TMP, Node, Rank, check, content, nodes, save, skip, wait

if not shutil.which("etcd"):
    skip("no etcd")
url = etcd.start(network.SERVICE, TMP + "/etcd")
hosts = {}


def make(name, options):
    hosts[name] = network.Host()
    return Node(name, options, within=hosts[name].within)


def begin(restart, *there):
    return [Rank(node, rank, len(there), restart=restart) for rank, node in enumerate(there)]


def end(ranks, unit, step):
    ranks[0].do(
        f"open('{unit}/.metadata.tmp', 'wb').write(b'step {step}'); "
        f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')"
    )


def failed(unit, there, word):
    for node in there:
        told = node.fails(unit)
        assert word in told and "three" in told, (node.name, told)
        assert not os.path.exists(node.path(unit)), node.name
    assert not os.path.exists(os.path.join(BACK, unit))


def away(node):
    return node.status()["coord"]["state"] == "outage"


def back(node):
    hosts[node.name].join()
    wait(lambda: not away(node), node.name + " to reach etcd")


def closed(unit, root):
    """Have all others told @root that nothing of theirs is open?"""
    with open(root.path(".ckptfs/status.json"), encoding="utf-8") as file:
        shared = [p for p in json.load(file)["pending"] if p["path"] == unit][0]["shared"]
    return [other["state"] for other in shared["others"]] == ["closed"] * 2


def saves(ranks, unit, step):
    """All three, as if nothing had been."""
    save(ranks, unit, step)
    for rank in ranks:
        rank.node.wait_for(unit)
    check(unit, 3, step)


with nodes("one", "two", "three", options="coord=etcd:" + url, make=make) as (one, two, three):
    # Before the end is seen.
    ranks = begin(0, one, two, three)
    save(ranks, "step-1", 1, end=False)
    hosts["three"].cut()
    wait(lambda: away(three), "the outage to be seen")
    failed("step-1", (one, two), "shows no life")
    back(three)
    failed("step-1", (three,), "")
    for rank in ranks:
        rank.kill()
    ranks = begin(1, one, two, three)
    saves(ranks, "step-1", 2)

    # It is cut off for so short that nobody takes it for dead.
    save(ranks, "step-2", 2, end=False)
    hosts["three"].cut()
    end(ranks, "step-2", 2)
    hosts["three"].join()
    for node in (one, two, three):
        node.wait_for("step-2")
    check("step-2", 3, 2)
    for rank in ranks:
        rank.leave()
    for node in (one, two, three):
        node.leave()

with nodes(
    "one", "two", "three", options=f"coord=etcd:{url},lease_s=100,commit_timeout_s=5", make=make
) as (one, two, three):
    # Before it has voted, and its lease is a long one.
    ranks = begin(2, one, two, three)
    save(ranks, "step-3", 3, end=False)
    # else the root waits for these
    wait(lambda: closed("step-3", one), "what the others say of their closes")
    hosts["three"].cut()
    end(ranks, "step-3", 3)
    failed("step-3", (one, two), "commit_timeout_s")
    back(three)
    failed("step-3", (three,), "commit_timeout_s")
    for rank in ranks:
        rank.kill()

    # After it has voted.
    ranks = begin(3, one, two, three)
    save(ranks, "step-3", 4, end=False)
    before = etcd.records(url)
    # What two has closed is known by then, and all that is missing for the commit is its vote.
    wait(lambda: closed("step-3", one), "what the others say of their closes")
    os.kill(two.pid, signal.SIGSTOP)
    end(ranks, "step-3", 4)
    # By its key: a vote for what has failed before may say the same.
    wait(
        lambda: any(
            text.startswith("vote ") and key not in before
            for key, text in etcd.records(url).items()
        ),
        "a vote",
    )
    hosts["three"].cut()
    os.kill(two.pid, signal.SIGCONT)
    for node in (one, two):
        node.wait_for("step-3")
    check("step-3", 3, 4)
    back(three)
    three.wait_for("step-3")
    assert ranks[2].read("step-3/__0_0.distcp") == content(0, 4)
    for rank in ranks:
        rank.leave()
    for node in (one, two, three):
        node.leave()
