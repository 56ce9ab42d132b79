#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# needs: root
# timeout: 400
# Three nodes on GlusterFS agree by etcd, and one cannot reach the backing any more, but etcd: it
# shows life, and what it has not flushed is missing. So that fails on all others by a reason that
# names it, and on itself when it is back. Where the backing is all that they have, it shows no life
# either.

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
import network

network.enter()
import etcd
import gluster
from nodes import TMP, Node, Rank, check, nodes, save, skip

if not shutil.which("etcd"):
    skip("no etcd")
gluster.start()
url = etcd.start(network.SERVICE, TMP + "/etcd")
hosts = {}
LARGE = 48 << 20  # by flush_bw that takes longer than the node is there for


def cut(restart, unit, word, bare, one, two, three):
    """While its ranks have written, and before all is flushed and voted for."""
    there = (one, two, three)
    ranks = [Rank(node, rank, 3, restart=restart) for rank, node in enumerate(there)]
    save(ranks, unit, 1, end=False)
    ranks[2].do(f"open('{unit}/__2_1.distcp', 'wb').write(bytes({LARGE}))")
    hosts[three.name].lose(network.OWN)
    ranks[0].do(
        f"open('{unit}/.metadata.tmp', 'wb').write(b'step 1'); "
        f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')"
    )
    for node in (one, two):
        told = node.fails(unit)
        assert word in told and three.name + " (host " in told, told
        assert not os.path.exists(node.path(unit)), node.name
    assert not os.path.exists(os.path.join(bare, unit))
    hosts[three.name].find(network.OWN)
    told = three.fails(unit)
    assert word in told, told
    for rank in ranks:
        rank.kill()
    ranks = [Rank(node, rank, 3, restart=restart + 1) for rank, node in enumerate(there)]
    save(ranks, unit, 2)
    for node in there:
        node.wait_for(unit)
    check(unit, 3, 2, bare)
    for rank in ranks:
        rank.leave()
    for node in there:
        node.leave()


def on(volume, options, word):
    """A new volume."""

    def make(name, options):
        host = hosts[name] = network.Host()
        where = gluster.mount(volume, f"{TMP}/{volume}.{name}", host)
        return Node(name, options, where, host.within)

    gluster.volume(volume)
    bare = gluster.mount(volume, f"{TMP}/{volume}")
    with nodes("one", "two", "three", options="flush_bw=16M," + options, make=make) as there:
        cut(0, "step-1", word, bare, *there)


on("data", "commit_timeout_s=5,coord=etcd:" + url, "commit_timeout_s")
on("alone", "", "shows no life")
