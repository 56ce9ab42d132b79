#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# With hardly any descriptors to spare, what is in a checkpoint is found again: while that is in staging, when it is
# committed, and when it is being changed; also by who has its directories open.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
export CKPTFS_PIN_BUDGET=4
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *

above = mnt + "/above"
unit = above + "/step-1"
others = [above + "/other%d" % i for i in range(8)]

def drop_pins():
	for other in others:
		os.stat(other)

os.mkdir(above)
for other in others:
	save(other, b"other")
content = begin(unit, files=4)
os.makedirs(unit + "/sub/deep")
content["sub"] = content["sub/deep"] = None
for i in range(4):
	content["sub/deep/file%d" % i] = data(i, 100)
	save(unit + "/sub/deep/file%d" % i, data(i, 100))
deep = os.open(unit + "/sub/deep", os.O_RDONLY)
os.chdir(unit + "/sub")

def changes(turn):
	for i in range(3):
		late, later = "late%d-%d" % (turn, i), "later%d-%d" % (turn, i)
		drop_pins()
		save(late, b"late")
		fd = os.open(later, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=deep)
		os.write(fd, b"later")
		os.close(fd)
		drop_pins()
		content["sub/" + late], content["sub/deep/" + later] = b"late", b"later"
		assert tree(unit) == content
		assert os.stat("deep/file0").st_size == 100

changes(0)
end(unit, content)
wait_for(unit)
is_whole("above/step-1", content)
for turn in 1, 2:
	changes(turn)
	assert ckptfs("commit", unit)[0] == 0
	wait_for(unit)
	is_whole("above/step-1", content)
assert failures() == [], failures()
os.chdir("/")
END
umount_ckptfs
