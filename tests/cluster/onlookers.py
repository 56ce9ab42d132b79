#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 240
# A node that is unmounted while a checkpoint is open takes nothing of it along: if it has only looked, or if all that its
# processes have written is whole and they have ended well, the others go on without it, and commit that. While one of its
# processes may have more to write it fails the checkpoint, by name.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


def end(rank, unit, step):
	rank.do("open('%s/.metadata.tmp', 'wb').write(b'step %d'); os.rename('%s/.metadata.tmp', '%s/.metadata')" % (
		unit, step, unit, unit))


with nodes("one", "two", "three", "four") as (one, two, three, four):
	ranks = [Rank(one, 0, 4), Rank(two, 1, 4), Rank(three, 2, 4), Rank(four, 3, 4)]
	save(ranks[:2], "step-1", 1, end=False)

	# One that has looked; one that has written, and with it an entry below.
	assert ranks[2].do("result = sorted(os.listdir('step-1'))") == ["__0_0.distcp", "__1_0.distcp"]
	ranks[2].leave()
	three.leave()
	ranks[3].write("step-1/__2_0.distcp", content(2, 1))
	ranks[3].leave()
	four.leave()
	assert not os.path.exists(BACK + "/step-1")

	# Who comes now, to a parent that has lost two, joins as ever.
	three.mount()
	ranks[2] = Rank(three, 2, 4)
	ranks[2].write("step-1/__3_0.distcp", content(3, 1))
	end(ranks[0], "step-1", 1)
	for node in (one, two, three):
		node.wait_for("step-1")
	made = check("step-1", 4, 1)
	assert {(f["path"], f["node"]) for f in made["files"]} == {(".metadata", "one"), ("__0_0.distcp", "one"),
		("__1_0.distcp", "two"), ("__2_0.distcp", "four"), ("__3_0.distcp", "three")}, made["files"]

	# The last word of one that leaves is the evidence that was missing.
	save(ranks[:1], "step-2", 2, end=False)
	ranks[1].write("step-2/__1_0.distcp", content(1, 2))
	end(ranks[1], "step-2", 2)
	ranks[1].leave()
	two.leave()
	one.wait_for("step-2")
	check("step-2", 2, 2)

	# One whose process lives, and has closed what it wrote: who knows whether that was all?
	save([ranks[0], ranks[2]], "step-3", 3, end=False)
	staging, = staged()
	ranks[2].do("os.chdir('/')")
	code, told = three.umount()
	assert code == 1 and "step-3" in told, (code, told)
	told = one.fails("step-3")
	assert "as node three has recorded" in told and "was unmounted" in told, told
	assert not os.path.exists(BACK + "/step-3")
	for rank, path in ((0, "__0_0.distcp"), (2, "__2_0.distcp")):
		with open(os.path.join(staging, path), "rb") as file:
			assert file.read() == content(rank, 3)
	for rank in (ranks[0], ranks[2]):
		rank.kill()
	one.leave()
