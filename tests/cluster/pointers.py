#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A pointer that is written on a node which has no part in the checkpoint it names does not appear before that is committed,
# and not at all if it fails: a file, one that gets its name by a rename, a symbolic link.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


def write(unit):
	ranks[2].write("run/latest", unit.encode())


def rename(unit):
	ranks[2].write("run/latest.new", unit.encode())
	ranks[2].do("os.rename('run/latest.new', 'run/latest')")


def link(unit):
	ranks[2].do("os.path.islink('run/last.ckpt') and os.unlink('run/last.ckpt'); os.symlink(%r, 'run/last.ckpt')" % unit)


def pointed(top, how):
	try:
		if how == link:
			return os.readlink(top + "/run/last.ckpt")
		with open(top + "/run/latest", encoding="ascii") as file:
			return file.read()
	except FileNotFoundError:
		return None


def told(node):
	with open(node.path(".ckptfs/failures.json"), encoding="utf-8") as file:
		return file.read()


with nodes("one", "two", "three") as (one, two, three):
	ranks = [Rank(one, 0, 3), Rank(two, 1, 3), Rank(three, 2, 3)]
	save(ranks, "run/step-0", 0)
	for node in (one, two, three):
		node.wait_for("run/step-0")
	for step, how in enumerate((write, rename, link), 1):
		unit, before = "step-%d" % step, pointed(BACK, how)
		save(ranks[:2], "run/" + unit, step, end=False)
		how(unit)
		assert any(p["path"] in ("run/latest", "run/last.ckpt") for p in three.status()["pending"]), how
		assert pointed(BACK, how) == before, how
		assert pointed(one.mnt, how) == before, how
		ranks[0].do("open('run/%s/.metadata.tmp', 'wb').write(b'step %d'); os.rename('run/%s/.metadata.tmp', 'run/%s/.metadata')" % (
			unit, step, unit, unit))
		one.wait_for("run/" + unit)
		wait(lambda: pointed(BACK, how) == unit, "the pointer")  # pylint: disable=cell-var-from-loop
		check("run/" + unit, 2, step)
		for node in (one, two, three):
			assert pointed(node.mnt, how) == unit, (node.name, how)

	save(ranks[:2], "run/step-4", 4, end=False)
	write("step-4")
	ranks[1].kill()
	assert "killed by signal 9" in three.fails("run/step-4")
	wait(lambda: "run/latest' was to name the checkpoint 'step-4'" in told(three), "the pointer to be dropped")
	for top in (BACK, one.mnt, three.mnt):
		assert pointed(top, write) == "step-2", top
	for rank in ranks:
		rank.kill()
