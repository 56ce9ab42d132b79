#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# needs: root
# timeout: 180
# A rank of the node that began the save dies while etcd is out of that node's reach, and another node ends the save before it is
# back: the death was the first, and what that rank may have left torn is not committed.

import os
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
import network

network.enter()
import etcd
from nodes import *

url = etcd.start(network.SERVICE, TMP + "/etcd")
hosts = {}


def make(name, options):
	hosts[name] = network.Host()
	return Node(name, options, within=hosts[name].within)


with nodes("one", "two", "three", options="lease_s=60,coord=etcd:" + url, make=make) as (one, two, three):
	job = [Rank(node, rank, 3) for rank, node in enumerate((one, two, three))]
	save(job, "step-1", end=False)
	one.wait_for_closed("step-1", 2)
	job[0].write("step-1/__0_0.distcp", b"cut o")
	hosts["one"].cut()
	job[0].kill()
	wait(lambda: "has died" in str(one.status()["pending"]), "the death to be known")
	time.sleep(1) # what two nodes do within less has no order that could be known
	job[2].do("open('step-1/.metadata.tmp', 'wb').write(b'end'); os.rename('step-1/.metadata.tmp', 'step-1/.metadata')")
	hosts["one"].join()
	for node in (one, two, three):
		assert "(rank 0), which was writing it, was killed" in node.fails("step-1")
	assert not os.path.exists(BACK + "/step-1")
