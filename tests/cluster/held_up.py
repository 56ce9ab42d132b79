#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 240
# A node that is held up: the checkpoint that waits for its vote fails within commit_timeout_s, by its name; and one that was
# away until all is over finds that, and what it has goes nowhere. So does one that cannot say what it has written.

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


def records(kind):
	txn = os.path.join(BACK, ".ckptfs/txn/%d" % os.getuid())
	return [name for name in os.listdir(txn) if name.endswith("." + kind)]


def closed_elsewhere(node, unit):
	others = [p for p in node.status()["pending"] if p["path"] == unit][0]["shared"]["others"]
	return sum(other["state"] == "closed" for other in others)


# A node is stopped before it votes, and another votes behind it: that is heard again and again, and is no news.
with nodes("one", "two", "three", options="lease_s=600,commit_timeout_s=2") as (one, two, three):
	ranks = [Rank(node, rank, 3, job="stopped") for rank, node in enumerate((one, two, three))]
	ranks[0].do("os.makedirs('step-0')")
	for rank in ranks: # so that the second joins before the third
		rank.write("step-0/__%d_0.distcp" % rank.rank, content(rank.rank, 0))
	wait(lambda: closed_elsewhere(one, "step-0") == 2, "the closes")
	os.kill(two.pid, signal.SIGSTOP)
	ranks[0].do("open('step-0/.metadata.tmp', 'wb').close(); os.rename('step-0/.metadata.tmp', 'step-0/.metadata')")
	told = one.fails("step-0")
	assert "commit_timeout_s" in told and "two" in told, told
	os.kill(two.pid, signal.SIGCONT)
	for rank in ranks:
		rank.kill()
	for node in (one, two, three):
		node.fails("step-0")
		node.kill()

with nodes("one", "two", options="lease_s=600,commit_timeout_s=2") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	save(ranks, "step-1", 1, end=False)
	os.kill(two.pid, signal.SIGSTOP)
	ranks[0].write("step-1/.metadata.tmp", b"step 1")
	ranks[0].do("os.rename('step-1/.metadata.tmp', 'step-1/.metadata')")
	told = one.fails("step-1")
	assert "commit_timeout_s" in told and "two" in told or "nothing came for 2 s" in told, told
	os.kill(two.pid, signal.SIGCONT)
	two.fails("step-1")
	for rank in ranks:
		rank.kill()

	# A directory where the list of what it has written is to be, which is long.
	ranks = [Rank(one, 0, 2, restart=1), Rank(two, 1, 2, restart=1)]
	save(ranks, "step-2", 2, end=False)
	ranks[1].do("for n in range(200): open('step-2/part-%d' % n, 'wb').close()")
	for path in staged():
		if os.path.exists(path + "/__1_0.distcp") and os.stat(path).st_ino == os.stat(one.path("step-2")).st_ino:
			os.mkdir(path + "/.ckptfs-vote-1")
	ranks[0].do("open('step-2/.metadata.tmp', 'wb').close(); os.rename('step-2/.metadata.tmp', 'step-2/.metadata')")
	for node in (one, two):
		told = node.fails("step-2")
		assert "could not list what it has written" in told, told
	for rank in ranks:
		rank.kill()
	one.kill()
	two.kill()

before = set(records("open"))
with nodes("three", "four", options="lease_s=1") as (three, four):
	ranks = [Rank(three, 0, 2, job="away"), Rank(four, 1, 2, job="away")]
	save(ranks, "step-3", 3, end=False)
	os.kill(four.pid, signal.SIGSTOP)
	told = three.fails("step-3")
	assert "shows no life" in told, told
	ranks[0].kill()
	wait(lambda: set(records("open")) <= before, "the records to go")
	# The name is another's by now.
	again = [Rank(three, 0, 1, job="next")]
	save(again, "step-3", 4)
	three.wait_for("step-3")
	os.kill(four.pid, signal.SIGCONT)
	told = wait(lambda: [f for f in json.loads(open(four.path(".ckptfs/failures.json"), encoding="utf-8").read())
		if "was decided without this node" in f["message"]], "the node to find it")
	check("step-3", 1, 4)
	assert not os.path.exists(BACK + "/step-3/__1_0.distcp")
	for rank in ranks[1:] + again:
		rank.kill()
	for node in (three, four):
		node.leave()
