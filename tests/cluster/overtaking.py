#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Two nodes have saves under way, and each a pointer that is to name its own (a file, one that gets its name by a rename, a
# symbolic link): the one that was written last counts, in whatever order the saves are committed, and whether it goes on or back.
# That is no failure, and nothing of the other is left.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


def write(rank, unit):
	rank.write("run/latest", unit.encode())


def rename(rank, unit):
	rank.write("run/latest.new.%d" % rank.rank, unit.encode())
	rank.do("os.rename('run/latest.new.%d', 'run/latest')" % rank.rank)


def link(rank, unit):
	rank.do("os.symlink(%r, 'run/last.new.%d'); os.rename('run/last.new.%d', 'run/last.ckpt')" % (unit, rank.rank, rank.rank))


def shown(how, *where):
	names = set()
	for top in where:
		if how == link and os.path.lexists(top + "/run/last.ckpt"):
			names.add(os.readlink(top + "/run/last.ckpt"))
		elif how != link and os.path.exists(top + "/run/latest"):
			with open(top + "/run/latest", encoding="ascii") as file:
				names.add(file.read())
	return names


def end(unit, step):
	ranks[0].do("open('%s/.metadata.tmp', 'wb').write(b'step %d'); os.rename('%s/.metadata.tmp', '%s/.metadata')" % (
		unit, step, unit, unit))
	for node in (one, two):
		node.wait_for(unit)
	check(unit, 2, step)


with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	step = 0
	for how in write, rename, link:
		for first, last, overtakes in (0, 1, True), (1, 0, False):
			units = ["step-%d" % (step + 1), "step-%d" % (step + 2)]
			for rank, unit in zip((first, last), units):
				step += 1
				save(ranks, "run/" + unit, step, end=False)
				how(ranks[rank], unit)
			assert not shown(how, BACK) & set(units), (how, units)
			for unit in reversed(units) if overtakes else units:
				end("run/" + unit, int(unit[5:]))
			for node in one, two:
				wait(lambda: not node.status()["pending"], "all to be over") # pylint: disable=cell-var-from-loop
			now = shown(how, BACK, one.mnt, two.mnt)
			assert now == {units[1]}, (how, first, last, overtakes, now)
	for rank in ranks:
		rank.leave()
	for node in (one, two):
		with open(node.path(".ckptfs/failures.json"), encoding="utf-8") as file:
			assert not json.load(file), node.name
		node.leave()
	assert staged() == [], staged()
