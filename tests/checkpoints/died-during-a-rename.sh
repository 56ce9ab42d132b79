#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A rank that dies while its checkpoint is being renamed, which takes the backing a while, is not forgotten: it fails.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
needs fsfreeze
loop_fs ext4 100 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program "$TEST_TMP/disk" <<'END'
from presets import *

def writers(unit):
	return [p["writers"] for p in status()["pending"] if p["path"].endswith(unit)]

for n, end in enumerate((lambda rank: rank.kill(), lambda rank: rank.exit(1))):
	with Job(2) as job:
		for directory in "from", "to":
			os.makedirs(mnt + "/" + directory, exist_ok=True)
		job[0].mkdir("from/step-%d" % n)
		for rank in job:
			rank.file("from/step-%d/__%d_0.distcp" % (n, rank.rank))
		subprocess.run(["fsfreeze", "-f", sys.argv[1]], check=True)
		try:
			job[0].tell("rename", "from/step-%d" % n, "to/step-%d" % n)
			wait(lambda: any(w["op"].startswith("RENAME") for w in status()["requests"]["waiting"]))
			end(job[1])
			wait(lambda: writers("/step-%d" % n) == [1], 8)
		finally:
			subprocess.run(["fsfreeze", "-u", sys.argv[1]], check=True)
		job[0].answer()
		failed("to/step-%d" % n, "(rank 1)")
		absent("to/step-%d" % n)
END
umount_ckptfs
