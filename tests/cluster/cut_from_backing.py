#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# needs: root
# timeout: 400
# Three nodes on GlusterFS agree by etcd, and one cannot reach the backing any more, but etcd: it shows life, and what it has
# not flushed is missing. So that fails on all others by a reason that names it, and on itself when it is back.

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
import network

network.enter()
import etcd
import gluster
from nodes import *

if not shutil.which("etcd"):
	skip("no etcd")
gluster.start()
gluster.volume("data")
gluster.mount("data", BACK)
url = etcd.start(network.SERVICE, TMP + "/etcd")
hosts = {}


def make(name, options):
	hosts[name] = network.Host()
	where = gluster.mount("data", os.path.join(TMP, "back." + name), hosts[name])
	return Node(name, options, where, hosts[name].within)


def cut(restart, unit, word, one, two, three):
	"""While its ranks have written, and before all is flushed and voted for."""
	there = (one, two, three)
	ranks = [Rank(node, rank, 3, restart=restart) for rank, node in enumerate(there)]
	save(ranks, unit, 1, end=False)
	hosts[three.name].lose(network.OWN)
	ranks[0].do("open('%s/.metadata.tmp', 'wb').write(b'step 1'); os.rename('%s/.metadata.tmp', '%s/.metadata')" % (
		unit, unit, unit))
	for node in (one, two):
		told = node.fails(unit)
		assert word in told and three.name + " (host " in told, told
		assert not os.path.exists(node.path(unit)), node.name
	assert not os.path.exists(os.path.join(BACK, unit))
	hosts[three.name].find(network.OWN)
	told = three.fails(unit)
	assert word in told, told
	for rank in ranks:
		rank.kill()
	ranks = [Rank(node, rank, 3, restart=restart + 1) for rank, node in enumerate(there)]
	save(ranks, unit, 2)
	for node in there:
		node.wait_for(unit)
	check(unit, 3, 2)
	for rank in ranks:
		rank.leave()
	for node in there:
		assert node.umount() == (0, ""), node.name


with nodes("one", "two", "three", options="commit_timeout_s=5,coord=etcd:" + url, make=make) as there:
	cut(0, "step-1", "commit_timeout_s", *there)
