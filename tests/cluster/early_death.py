#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# cpu: 15
# A dead writer is a failure: what others do after a rank has died, on whichever node, does not end what it wrote to.

import errno
import os
import sys
import time

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

restarts = iter(range(100))


def ranks():
	restart = next(restarts)
	return [Rank(one, 0, 4, restart=restart), Rank(one, 1, 4, restart=restart), Rank(two, 2, 4, restart=restart),
		Rank(two, 3, 4, restart=restart)]


def waits_for(node, unit):
	return [o["waits_for"] for o in node.status()["pending"] if o["path"].endswith(unit)]


def knows(node, unit):
	"""Has the news come to @node? It may have failed there by now."""
	wait(lambda: all("has died" in what for what in waits_for(node, unit)), "the death to be known")


def failed(unit, dead):
	for node in (one, two):
		said = node.fails(unit)
		assert "(rank %d), which was writing it, was killed" % dead.rank in said, said
		assert node is dead.node or "as node %s has recorded" % dead.node.name in said, said
		assert not os.path.exists(node.path(unit)), unit
	assert not os.path.exists(os.path.join(BACK, unit)), unit


def gone(all):
	for rank in all:
		rank.kill()


with nodes("one", "two", "three", options="quiet_s=2") as (one, two, three):
	# DCP: the last file of one was cut off, as an exception does it, and closed; then it dies, and another ends the save.
	for dead, ender in ((1, 0), (1, 2), (3, 0), (3, 2)):
		unit = "step-%d-%d" % (dead, ender)
		job = ranks()
		save(job, unit, end=False)
		job[dead].write("%s/__%d_0.distcp" % (unit, dead), b"cut o")
		job[dead].kill()
		knows(job[dead].node, unit)
		knows(one, unit) # who began it
		if job[dead].node is not job[ender].node:
			time.sleep(1) # what two nodes do within less has no order that could be known
		try:
			job[ender].do("open('%s/.metadata.tmp', 'wb').write(b'end'); os.rename('%s/.metadata.tmp', '%s/.metadata')" % (
				unit, unit, unit))
		except OSError:
			pass # it has failed before that
		failed(unit, job[dead])
		gone(job)

	# ... also if who began it is held up all the while, and hears of both at once.
	job = [Rank(node, rank, 3, restart=99) for rank, node in enumerate((one, two, three))]
	save(job, "step-held-up", end=False)
	one.wait_for_closed("step-held-up", 2)
	os.kill(one.pid, signal.SIGSTOP)
	job[1].write("step-held-up/__1_0.distcp", b"cut o")
	job[1].kill()
	knows(two, "step-held-up")
	time.sleep(1) # as above
	job[2].do("open('step-held-up/.metadata.tmp', 'wb').write(b'end'); os.rename('step-held-up/.metadata.tmp', 'step-held-up/.metadata')")
	os.kill(one.pid, signal.SIGCONT)
	failed("step-held-up", job[1])
	gone(job)

	# accelerate: all is written, but the silence that ends it is not over.
	for dead in (1, 3):
		unit = "run-%d/checkpoint_0" % dead
		job = ranks()
		job[0].do("os.makedirs(%r)" % unit)
		for rank in job:
			rank.write("%s/random_states_%d.pkl" % (unit, rank.rank), b"x" * 1000)
		job[dead].kill()
		failed(unit, job[dead])
		gone(job)

	# Whoever of its job goes on, where the death is known, is told before it begins the next one.
	for dead in (0, 1):
		unit = "on-%d/step-1" % dead
		job = [Rank(node, rank, 3, restart=200 + dead) for rank, node in enumerate((one, two, three))]
		spare = Rank(one, 0, 3, restart=200 + dead)
		spare.do("None")
		save(job, "on-%d/step-0" % dead)
		one.wait_for("on-%d/step-0" % dead) # so that it is not taken for one that was started after the death
		save(job, unit, end=False)
		job[dead].kill()
		knows(one, unit)
		for told in (True, False):
			try:
				spare.do("os.mkdir('on-%d/step-2')" % dead)
				assert not told, "rank 0 was not told of the death of rank %d" % dead
			except OSError as e:
				assert told and e.errno == errno.EIO, e
		gone((*job, spare))

	# Who is unmounted meanwhile waits for that, and tells no other reason.
	for node in (one, two):
		unit = "left-by-%s/step-1" % node.name
		job = ranks()
		save(job, unit, end=False)
		gone(job)
		knows(node, unit)
		code, said = node.umount()
		assert not code or ", which was writing it, was killed" in said, said
		assert ", which was writing it, was killed" in (two if node is one else one).fails(unit)
		node.mount()
