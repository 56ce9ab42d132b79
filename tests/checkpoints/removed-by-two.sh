#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A job and a person each remove a part of a committed checkpoint, and the job is killed: its part is there again, that of the
# person is not; whoever came first.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3
program <<'END2'
from presets import *

FILES = [".metadata", "__0_0.distcp", "__1_0.distcp"]

with Job(2) as job:
	for n in range(3):
		job[0].mkdir("step-%d" % n)
		for rank in job:
			rank.file("step-%d/__%d_0.distcp" % (n, rank.rank), 3000, n, True)
		job[0].metadata("step-%d" % n)
		committed("step-%d" % n, "rename .metadata", FILES, 2)

def seen(unit):
	return sorted(os.listdir(mnt + "/" + unit))

job, person = Job(2), Rank(session=True)
job[0].unlink("step-0/.metadata")
person.unlink("step-0/__0_0.distcp")
person.unlink("step-1/__0_0.distcp")
job[0].unlink("step-1/.metadata")
assert seen("step-0") == seen("step-1") == ["__1_0.distcp"]
# All of it, but with a part that the person has removed before.
person.unlink("step-2/__0_0.distcp")
job[0].unlink("step-2/.metadata")
job[0].unlink("step-2/__1_0.distcp")
job[0].rmdir("step-2")
assert not os.path.exists(mnt + "/step-2") and os.path.exists(back + "/step-2")
job[0].kill()
rest = [".metadata", "__1_0.distcp"]
for unit, why in ("step-0", "was killed by signal 9"), ("step-1", "was killed by signal 9"), ("step-2", "it is kept"):
	wait(lambda: os.path.exists(mnt + "/" + unit) and seen(unit) == rest)
	wait(lambda: why in "".join(f["message"] for f in failures() if f["path"] == unit))
	wait(lambda: sorted(n for n in os.listdir(back + "/" + unit) if not n.startswith(".ckptfs")) == rest)
	whole(unit, "last close", rest)
END2
umount_ckptfs
