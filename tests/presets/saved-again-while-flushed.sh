#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A tag that is saved once more while the first save of it, whose end was seen, is still being flushed: that is committed
# first, by itself. What ended it is no end of the second one, which wants all of its own.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
gated_fs 200 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1,quiet_s=3600 "$TEST_TMP/disk"
program <<'END2'
from presets import *

FILES = [".metadata", "__0_0.distcp", "__1_0.distcp"]

with Job(2) as job:
	job[0].text("warm", "1") # each process is known, and its rank
	job[1].text("warm", "1")
	with flush_held():
		job[0].mkdir("step-10")
		for rank in job:
			rank.file("step-10/__%d_0.distcp" % rank.rank, 300000, 1)
		job[0].file("step-10/.metadata.tmp", 1400, 1)
		job[0].rename("step-10/.metadata.tmp", "step-10/.metadata")
		wait(lambda: state("step-10")["state"] == "sealed")
		absent("step-10")
		job[0].tell("file", "step-10/__0_0.distcp", 300000, 2)
		assert state("step-10")["state"] == "sealed"
	assert job[0].answer() is None
	first = tree(back + "/step-10")
	assert first["__0_0.distcp"] == data(1, 300000), "the first save, whole"
	verify(back + "/step-10")
	job[1].file("step-10/__1_0.distcp", 300000, 2)
	# Also when all that was written is flushed.
	wait(lambda: status()["cache"]["dirty"] == status()["cache"]["flying"] == 0)
	now = state("step-10")
	assert now["state"] == "open" and "the rename to .metadata" in now["waits_for"], now
	assert tree(back + "/step-10") == first
	job[0].metadata("step-10", 2)
	committed("step-10", "rename .metadata", FILES, 2)
	assert tree(back + "/step-10")["__0_0.distcp"] == data(2, 300000)
END2
