#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# What frameworks were seen to do, recorded by tests/frameworks (harness/record.py): each checkpoint is committed, by the evidence
# of its rule, and, where nothing else is to come, as soon as it is saved.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 1
program "$SRC"/tests/presets/recorded/*.json <<'END2'
from presets import *

def play(recording, top):
	os.mkdir(mnt + "/" + top)
	world = recording["world"]
	ranks = [Rank(rank, world, 29600) for rank in range(world)] or [Rank(session=True)]
	for rank, call, *args in recording["calls"]:
		paths = 2 if call == "rename" else 1
		if call == "symlink":
			args[1] = top + "/" + args[1]
		else:
			args[:paths] = [top + "/" + path for path in args[:paths]]
		getattr(ranks[rank], call)(*args)
	units = [top + "/" + unit for unit in recording["units"]]
	done = recording["done"]
	def look(unit):
		code, told = ckptfs("wait", "--timeout", "15", mnt + "/" + unit)
		assert code == 0, (told, state(unit))
		if recording["files"]:
			verify(back + "/" + unit)
		else:
			whole(unit, tuple(done) if isinstance(done, list) else done, None, world or 1)
	if recording["prompt"]:
		for unit in units:
			look(unit)
	for rank in ranks:
		rank.exit()
	for unit in units:
		look(unit)

for path in sys.argv[1:]:
	with open(path, encoding="utf-8") as file:
		recording = json.load(file)
	print(recording["framework"], recording["version"], len(recording["calls"]), "calls")
	play(recording, os.path.basename(path)[:-len(".json")])
	assert not failures(), failures()
END2
umount_ckptfs
