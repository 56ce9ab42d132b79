#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# A checkpoint that is renamed before its end, as Orbax does, has its new name, and that alone, on all nodes, whoever renamed
# it, and whoever asks for either. If it fails both names are free, each for itself.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *

TMP_NAME = "run/%d.orbax-checkpoint-tmp"


def begin(ranks, step):
	tmp = TMP_NAME % step
	ranks[0].do("os.makedirs('%s/default')" % tmp)
	for rank in ranks:
		rank.write("%s/default/d%d" % (tmp, rank.rank), content(rank.rank, step))
	ranks[0].write(tmp + "/_CHECKPOINT_METADATA", b"{}")


def rename(rank, step):
	rank.do("os.rename('%s', 'run/%d')" % (TMP_NAME % step, step))


def there(rank, step):
	return [rank.do("result = os.path.exists(%r)" % name) for name in (TMP_NAME % step, "run/%d" % step)]


with nodes("one", "two") as (one, two):
	for by in (0, 1):
		step = by + 1
		ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
		begin(ranks, step)
		# Held open, so that it has not ended when it is looked at.
		ranks[1].do("files['d'] = open('%s/default/d1', 'ab')" % (TMP_NAME % step))
		rename(ranks[by], step)
		# For a second another node may show the name of a directory that was renamed.
		wait(lambda: there(ranks[1 - by], step) == [False, True]) # pylint: disable=cell-var-from-loop
		for rank in ranks:
			assert there(rank, step) == [False, True], (by, rank.rank)
		ranks[1].do("files['d'].close()")
		for node in (one, two):
			node.wait_for("run/%d" % step)
		assert not os.path.exists(os.path.join(BACK, TMP_NAME % step))
		for rank in ranks:
			assert there(rank, step) == [False, True]
			assert rank.read("run/%d/default/d%d" % (step, 1 - rank.rank)) == content(1 - rank.rank, step)

		# Nobody has asked for its new name when it ends.
		step = by + 3
		begin(ranks, step)
		rename(ranks[by], step)
		for node in (one, two):
			node.wait_for("run/%d" % step)
		for rank in ranks:
			assert there(rank, step) == [False, True]
			rank.leave()

	# It fails under its new name; the job that comes after it makes the old one again.
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	begin(ranks, 5)
	ranks[1].do("files['d'] = open('%s/default/d1', 'ab')" % (TMP_NAME % 5))
	rename(ranks[0], 5)
	for rank in ranks:
		wait(lambda: there(rank, 5) == [False, True]) # pylint: disable=cell-var-from-loop
	for rank in ranks:
		rank.kill()
	for node in (one, two):
		wait(lambda: not node.status()["pending"]) # pylint: disable=cell-var-from-loop
	ranks = [Rank(one, 0, 2, restart=1), Rank(two, 1, 2, restart=1)]
	begin(ranks, 5)
	for rank in ranks:
		assert there(rank, 5) == [True, False], rank.rank
	rename(ranks[0], 5)
	for rank in ranks:
		wait(lambda: there(rank, 5) == [False, True]) # pylint: disable=cell-var-from-loop
	for node in (one, two):
		node.wait_for("run/5")
	for rank in ranks:
		rank.leave()
	for node in (one, two):
		node.leave()
