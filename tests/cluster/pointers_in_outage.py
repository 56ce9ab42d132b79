#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: root
# timeout: 240
# cpu: 15
# A pointer that is written on a node which has no part in the checkpoint it names, while that cannot ask etcd who saves what,
# does not appear before what it names is committed, and its writer need not wait for that: a file, one that gets its name by a
# rename, a symbolic link. And one that names nothing which is being saved appears when that is known.

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
import network

network.enter()
import etcd
from nodes import *

if not shutil.which("etcd"):
	skip("no etcd")
url = etcd.start(network.SERVICE, TMP + "/etcd")
hosts = {}


def make(name, options):
	hosts[name] = network.Host()
	return Node(name, options, within=hosts[name].within)


def away():
	return three.status()["coord"]["state"] == "outage"


def waits(name):
	"""For what the pointer waits on the node that it was written on."""
	return [p["waits_for"] for p in three.status()["pending"] if p["path"] == "run/" + name]


def pointed(top, name):
	path = "%s/run/%s" % (top, name)
	if os.path.islink(path):
		return os.readlink(path)
	with open(path, encoding="ascii") as file:
		return file.read()


# Each is made as far as it can be before the outage, and what is left of it is done in that. Names that nothing has are not
# asked for in it: who makes one waits.
HOWS = {
	"written": ("latest", "files['f'] = open('latest', 'wb', 0)  # %r", "files['f'].write(%r.encode()); files['f'].close()"),
	"renamed": ("latest", "open('latest.new', 'w').write(%r)", "os.rename('latest.new', 'latest')  # %r"),
	"linked": ("last.ckpt", "os.symlink(%r, 'last.new')", "os.rename('last.new', 'last.ckpt')  # %r"),
}

with nodes("one", "two", "three", options="coord=etcd:" + url, make=make) as (one, two, three):
	ranks = [Rank(one, 0, 3), Rank(two, 1, 3), Rank(three, 2, 3)]
	save(ranks, "run/step-0", 0)
	for node in (one, two, three):
		node.wait_for("run/step-0")
	ranks[2].do("os.chdir('run'); open('latest', 'w').write('step-0'); os.symlink('step-0', 'last.ckpt')")
	wait(lambda: os.path.exists(BACK + "/run/latest"), "the first pointer")
	for step, how in enumerate(HOWS, 1):
		name, before, after = HOWS[how]
		unit, old = "step-%d" % step, pointed(BACK, name)
		ranks[2].do(before % unit)
		save(ranks[:2], "run/" + unit, step, end=False)
		hosts["three"].cut()
		wait(away, "the outage to be seen")
		ranks[2].do(after % unit)
		assert [w for w in waits(name) if "whether '%s'" % unit in w], (how, waits(name))
		assert pointed(BACK, name) == old, how
		assert ranks[2].do("result = os.readlink(%r) if os.path.islink(%r) else open(%r).read()" % (name, name, name)) == old, how
		hosts["three"].join()
		wait(lambda: [w for w in waits(name) if "the commit of '%s'" % unit in w], "it to be known")  # pylint: disable=cell-var-from-loop
		assert pointed(BACK, name) == old, how
		ranks[0].do("open('run/%s/.metadata.tmp', 'wb').write(b'step %d'); os.rename('run/%s/.metadata.tmp', 'run/%s/.metadata')" % (
			unit, step, unit, unit))
		one.wait_for("run/" + unit)
		check("run/" + unit, 2, step)
		wait(lambda: pointed(BACK, name) == unit, "the pointer")  # pylint: disable=cell-var-from-loop

	# What it names is an ordinary file, which only the other nodes could tell; and it is written again before they do.
	ranks[2].do("open('plain', 'w').close()")
	for text in ("never", "plain"):
		ranks[2].do("files['f'] = open('latest', 'wb', 0)")
		hosts["three"].cut()
		wait(away, "the outage to be seen")
		ranks[2].do("files['f'].write(%r); files['f'].close()" % text.encode())
	assert pointed(BACK, "latest") == "step-2"
	hosts["three"].join()
	wait(lambda: pointed(BACK, "latest") == "plain", "the last pointer")
	wait(lambda: not waits("latest"), "the one before it to go")
	for rank in ranks:
		rank.leave()
	for node in (one, two, three):
		node.leave()
	assert not staged(), staged()
