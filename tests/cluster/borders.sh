#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Borders between directories, over nodes: one of the backing (a quota project), over which it renames nothing, is in nobody's
# way, and what is to be renamed over it stays where it was; nothing is taken by a rename out of a checkpoint that is
# committed, or that another node has begun, but copied.
#
# needs: root
# timeout: 120

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs chattr
loop_fs xfs 200 "$TEST_TMP/back"
mkdir "$TEST_TMP/back/project" "$TEST_TMP/back/run"
chattr -p 77 +P "$TEST_TMP/back/project" || skip "no projects here"

cat >"$TEST_TMP/borders.py" <<'END'
import errno, os, sys
sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import *


def not_over(rank, source, to):
	"""It may not be renamed."""
	try:
		rank.do("os.rename(%r, %r)" % (source, to))
	except OSError as e:
		assert e.errno == errno.EXDEV, (source, to, e)
	else:
		raise AssertionError("%s was renamed to %s" % (source, to))


def whole(unit, step):
	for node in (one, two):
		node.wait_for(unit)
	return check(unit, 2, step)


def names(top):
	return sorted(name for name in os.listdir(os.path.join(BACK, top)) if not name.startswith("."))


try:
	os.rename(BACK + "/run", BACK + "/project/run")
	skip("there is no border")
except OSError as e:
	assert e.errno == errno.EXDEV, e

with nodes("one", "two") as (one, two):
	ranks = [Rank(one, 0, 2), Rank(two, 1, 2)]
	for step in 1, 2, 3: # new, again, and rotated
		unit = "project/step-%d" % (1 + step // 3)
		save(ranks, unit, step)
		whole(unit, step)
	save(ranks, "project/step-3", 4, end=False)
	ranks[1].write("project/latest", b"step-3")
	ranks[1].do("import shutil; shutil.rmtree('project/step-1')")
	save(ranks, "project/step-3", 4)
	whole("project/step-3", 4)
	wait(lambda: names("project") == ["latest", "step-2", "step-3"], "what waited for it")

	save(ranks, "run/step-4", 4)
	whole("run/step-4", 4)
	for rank in ranks:
		not_over(rank, "run/step-4", "project/step-4")
		not_over(rank, "project/step-3/__0_0.distcp", "run/file")
		not_over(rank, "project/step-3/__1_0.distcp", "project/step-2/file")
	save(ranks, "run/step-5", 5, end=False)
	for rank in ranks[::-1]:
		not_over(rank, "run/step-5", "project/step-5")
		not_over(rank, "run/step-5/__%d_0.distcp" % rank.rank, "run/file")
		not_over(rank, "run/step-4/__%d_0.distcp" % rank.rank, "run/step-5/file")
	ranks[0].write("run/step-5/notes", b"notes")
	save(ranks, "run/step-5", 5)
	made = whole("run/step-5", 5)
	assert [f["path"] for f in made["files"]] == [".metadata", "__0_0.distcp", "__1_0.distcp", "notes"], made["files"]
	assert names("project") == ["latest", "step-2", "step-3"] and names("run") == ["step-4", "step-5"]

	# As mv does: it is copied, and removed where it was, on the node that did not write it.
	ranks[1].do("import shutil; shutil.move('run/step-5/notes', 'project/notes')")
	assert ranks[0].read("project/notes") == b"notes"
	ranks[0].do("import shutil; shutil.move('project/notes', 'run/step-4/notes')")
	wait(lambda: os.path.exists(BACK + "/run/step-4/notes") and not os.path.exists(BACK + "/run/step-5/notes"), "both changes")
	for node in (one, two):
		assert sorted(os.listdir(node.path("run/step-5"))) == [".metadata", "__0_0.distcp", "__1_0.distcp"], node.name
	whole("run/step-4", 4)
	whole("run/step-5", 5)
	for rank in ranks:
		assert rank.read("run/step-4/notes") == b"notes", rank.rank
		rank.leave()
	for node in (one, two):
		assert node.umount() == (0, ""), node.name
	assert staged() == [], staged()
END
expect_ok python3 "$TEST_TMP/borders.py"
