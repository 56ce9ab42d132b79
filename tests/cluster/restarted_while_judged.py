#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A job is killed and started again, and saves under the same name, while the checkpoint that died with it is being judged. Whoever
# makes the directory then does not find that one, which is gone a moment later: neither by a key that tells the starts apart, nor
# by one that does not.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

def failed(node, unit):
	with open(node.path(".ckptfs/failures.json"), encoding="utf-8") as file:
		return [f for f in json.load(file) if f["path"] == unit]


KEYS = ({"restart": 0}, {"restart": 1}), 2 * ({"job": "none", "MASTER_ADDR": "head", "MASTER_PORT": "29500"},)

with nodes("one", "two", "three") as there:
	one = there[0]
	for turn, (former, latter) in enumerate(KEYS):
		unit = "run-%d/step-1" % turn
		old = [Rank(node, rank, 3, **former) for rank, node in enumerate(there)]
		save(old[:2], unit, end=False)
		old[2].do("os.listdir(%r)" % unit) # its node has nothing to tell of a death, and is waited for
		one.wait_for_closed(unit)
		for rank in old:
			rank.kill()
		new = [Rank(node, rank, 3, **latter) for rank, node in enumerate(there)]
		new[0].do("os.makedirs(%r, exist_ok=True)" % unit)
		wait(lambda: failed(one, unit), "the failure")
		save(new, unit, turn)
		for node in there:
			node.wait_for(unit)
		check(unit, 3, turn)
		for rank in new:
			rank.leave()
