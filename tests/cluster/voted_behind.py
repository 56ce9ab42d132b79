#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A node votes, and dies, while one that is before it in the log has yet to vote: it is not missed, and people are told who is."""
from nodes import *

MIB = 1 << 20

with nodes("one", "three") as (one, three), nodes("two", options="flush_bw=1M") as (two,):
	ranks = [Rank(one, 0, 3), Rank(two, 1, 3), Rank(three, 2, 3)]
	ranks[0].do("os.makedirs('step-1')")
	ranks[0].write("step-1/__0_0.distcp", content(0, 1))
	ranks[1].do(f"open('step-1/__1_0.distcp', 'wb').write(os.urandom({12 * MIB}))")
	ranks[2].write("step-1/__2_0.distcp", content(2, 1))
	ranks[0].do("open('step-1/.metadata.tmp', 'wb').write(b'step 1'); os.rename('step-1/.metadata.tmp', 'step-1/.metadata')")
	wait(lambda: "voted" in three.ckptfs("why", three.path("step-1")), "three's vote")
	why = one.ckptfs("why", one.path("step-1"))
	three.kill()
	one.wait_for("step-1")
	for rank in ranks[:2]:
		rank.leave()
	assert "two" in why, why
	print(why)
