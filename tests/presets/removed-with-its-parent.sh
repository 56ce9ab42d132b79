#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A directory that looks empty can be removed, also while the removal of a checkpoint in it waits for the next one, which will
# never come: by a person, or by the job, which begins anew.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
from presets import *
import shutil

def save(job, unit):
	job[0].makedirs(unit)
	for rank in job:
		rank.file("%s/__%d_0.distcp" % (unit, rank.rank), 30000, rank.rank, True)
	job[0].metadata(unit)
	committed(unit, "rename .metadata")

with Job(2) as job:
	for what in "person", "job":
		save(job, "run/step-10")
		save(job, "run/step-12")
		job[0].rmtree("run/step-10")
		assert os.path.isdir(back + "/run/step-10") and names(mnt + "/run") == ["step-12"]
		if what == "person":
			try:
				shutil.rmtree(mnt + "/run")
			except OSError as e:
				raise AssertionError((e, os.listdir(back + "/run"), status())) from e
		else:
			try:
				job[0].rmtree("run")
			except AssertionError as e:
				raise AssertionError((e, os.listdir(back + "/run"), status())) from e
		assert not os.path.exists(mnt + "/run") and not os.path.exists(back + "/run")

	# One in which something is left stays, with what waits.
	save(job, "run/step-10")
	job[0].text("run/notes", "1")
	job[0].rmtree("run/step-10")
	fails(errno.ENOTEMPTY, os.rmdir, mnt + "/run")
	assert os.path.isdir(back + "/run/step-10")
END2
umount_ckptfs
