#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 240
# A node that is unmounted when the end was seen, and what it has is still being written back, votes for that first: the
# checkpoint commits. `ckptfs drain` on it waits for the same.

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

SIZE, RATE = 4 << 20, (2 << 20) // SLOW

with nodes("one", "two", options="flush_bw=%d" % RATE) as (one, two):
	for step, way in enumerate((["drain", two.mnt], ["umount", two.mnt])):
		unit = "step-%d" % step
		ranks = [Rank(one, 0, 2, restart=step), Rank(two, 1, 2, restart=step)]
		save(ranks, unit, step, end=False)
		ranks[1].do("with open('%s/__1_1.distcp', 'wb') as f: f.write(bytes(%d))" % (unit, SIZE))
		ranks[0].do("open('%s/.metadata.tmp', 'wb').write(b'step %d'); os.rename('%s/.metadata.tmp', '%s/.metadata')" % (
			unit, step, unit, unit))
		ranks[1].do("os.chdir('/')")
		assert not os.path.exists(os.path.join(BACK, unit)), "it is too fast to show anything"
		print(subprocess.run([CKPTFS, *way], check=True, stdout=subprocess.PIPE, text=True, timeout=2 * SECONDS).stdout)
		one.wait_for(unit)
		made = check(unit, 2, step)
		assert [f["size"] for f in made["files"] if f["path"] == "__1_1.distcp"] == [SIZE]
		for rank in ranks:
			rank.leave()
	one.leave()

# The same by a signal, as a service is stopped.
with nodes("three", "four", options="flush_bw=%d" % RATE) as (three, four):
	ranks = [Rank(three, 0, 2), Rank(four, 1, 2)]
	save(ranks, "step-3", 3, end=False)
	ranks[1].do("with open('step-3/__1_1.distcp', 'wb') as f: f.write(bytes(%d))" % SIZE)
	ranks[0].do("open('step-3/.metadata.tmp', 'wb').write(b'step 3'); os.rename('step-3/.metadata.tmp', 'step-3/.metadata')")
	ranks[1].do("os.chdir('/')")
	os.kill(four.pid, 15)
	three.wait_for("step-3")
	check("step-3", 2, 3)
	for rank in ranks:
		rank.leave()
