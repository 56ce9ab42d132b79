#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A checkpoint that has all that ends it but the close of a file is removed, file by file: nothing of it is committed on the
# way, not even for a moment, and the removal succeeds.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *
import re

for first in (".metadata", "__0_0.distcp"):
	unit = mnt + "/step-1"
	os.mkdir(unit)
	held = os.open(unit + "/__0_0.distcp", os.O_WRONLY | os.O_CREAT)
	os.write(held, b"x" * 1000)
	save(unit + "/__1_0.distcp", b"y" * 1000)
	end(unit)
	os.unlink(unit + "/" + first)
	for name in os.listdir(unit):
		os.unlink(unit + "/" + name)
	os.rmdir(unit)
	os.close(held)
	assert not os.path.exists(unit) and not os.path.exists(back + "/step-1")
assert status()["pending"] == [] and failures() == [], (status()["pending"], failures())
assert re.search(rb"\nckptfs_committed_total\{.*\} 0\n", read(mnt + "/.ckptfs/metrics")), "committed on the way"

# What removes one file, and goes on, has not removed the checkpoint.
content = make(mnt + "/step-2")
os.mkdir(mnt + "/step-3")
save(mnt + "/step-3/junk", b"z")
content = {"__0_0.distcp": b"x"}
save(mnt + "/step-3/__0_0.distcp", b"x")
os.unlink(mnt + "/step-3/junk")
end(mnt + "/step-3", content)
wait_for(mnt + "/step-3")
is_whole("step-3", content)
END
umount_ckptfs
