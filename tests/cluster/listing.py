#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# Who lists a directory on another node sees at once what ranks of the same job have begun, renamed or removed on this one,
# and so in each checkpoint; another job, which is not a part of it, does not.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


def names(rank, path):
	return sorted(rank.do("result = os.listdir(%r)" % path))


with nodes("one", "two", "three") as (one, two, three):
	ranks = [Rank(one, 0, 3), Rank(two, 1, 3), Rank(three, 2, 3)]
	other = Rank(three, 0, 2, job="other")
	ranks[0].do("os.makedirs('run', exist_ok=True)")
	save(ranks[:1], "run/step-1", 1)
	one.wait_for("run/step-1")

	# Begun on one node, and seen on the others before anybody has asked for it by name.
	ranks[0].do("os.makedirs('run/step-2')")
	ranks[1].do("os.makedirs('run/step-3')")
	assert names(other, "run") == ["step-1"]
	for rank in ranks:
		assert names(rank, "run") == ["step-1", "step-2", "step-3"], rank.rank
	assert ranks[2].do("import glob; result = len(glob.glob('run/step-[0-9]/'))") == 3
	# In an outer directory which is begun itself.
	ranks[0].do("os.makedirs('new/step-1')")
	assert names(ranks[1], ".") == ["new", "run"]
	assert names(ranks[1], "new") == ["step-1"]

	# In it: made, removed, renamed by others. In the last of these directories is no checkpoint.
	for first, path in (("__2_0.distcp", "run/step-2"), ("__2_0.distcp", "new/step-1"), ("notes.txt", "run/notes")):
		ranks[0].do("os.makedirs(%r, exist_ok=True)" % path)
		ranks[2].write("%s/%s" % (path, first), b"first")
		ranks[2].write(path + "/a", b"a" * 1000)
		ranks[1].do("os.mkdir('%s/deep')" % path)
		ranks[1].write(path + "/deep/b", b"b")
		ranks[1].do("os.mkdir('%s/empty')" % path)
		for rank in ranks:
			assert names(rank, path) == sorted([first, "a", "deep", "empty"]), (rank.rank, path)
			assert names(rank, path + "/deep") == ["b"], (rank.rank, path)
		ranks[2].do("os.rename('%s/a', '%s/c')" % (path, path))
		ranks[1].do("os.unlink('%s/deep/b'); os.rmdir('%s/deep'); os.rmdir('%s/empty')" % (path, path, path))
		for rank in ranks:
			for gone in ("/a", "/empty") + (("/deep",) if first != "notes.txt" else ()):
				assert not rank.do("result = os.path.exists(%r)" % (path + gone)), (gone, rank.rank, path)
			assert names(rank, path) == sorted([first, "c"]), (rank.rank, path)

	# Renamed on one node: on the others the old name goes, for who lists and for who asks for one of the two names.
	ranks[0].do("os.mkdir('run/step-4.tmp')")
	ranks[0].write("run/step-4.tmp/__0_0.distcp", content(0, 4))
	for rank in ranks:
		assert "step-4.tmp" in names(rank, "run"), rank.rank
	ranks[0].do("os.rename('run/step-4.tmp', 'run/step-4')")
	assert not ranks[1].do("result = os.path.exists('run/step-4.tmp')")
	for rank in ranks:
		assert [n for n in names(rank, "run") if "4" in n] == ["step-4"], rank.rank
		assert not rank.do("result = os.path.exists('run/step-4.tmp')"), rank.rank
		assert [n for n in names(rank, "run") if "4" in n] == ["step-4"], rank.rank
	# And the old one is free.
	ranks[1].do("os.mkdir('run/step-4.tmp')")
	assert [n for n in names(ranks[0], "run") if "4" in n] == ["step-4", "step-4.tmp"]
	ranks[1].do("os.rmdir('run/step-4.tmp')")
	for rank in ranks:
		assert [n for n in names(rank, "run") if "4" in n] == ["step-4"], rank.rank

	save(ranks, "run/step-3", 3)
	for node in (one, two, three):
		node.wait_for("run/step-3")
	check("run/step-3", 3, 3)
	assert {"step-1", "step-3"} <= set(names(other, "run"))
	for rank in ranks + [other]:
		rank.kill()
