#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A committed checkpoint is changed by several processes at once, of which none knows of the others: all of their changes
# get into it, none gets an error, and what was committed before stays as it was until then.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs -o quiet_s=2 "$TEST_TMP/disk"
program <<'END'
from checkpoints import *

def all_end(pids):
	assert [reap(pid) for pid in pids] == [0] * len(pids)

for turn in range(8):
	name = "step-%d" % turn
	unit = mnt + "/" + name
	content = begin(unit, files=4)
	os.mkdir(unit + "/sub")
	end(unit, content)
	wait_for(unit)
	old = [os.open(unit + "/__%d_0.distcp" % i, os.O_RDONLY) for i in range(4)]
	writers = []
	for i in range(8):
		file = "__%d_0.distcp" % (i // 2)
		if i % 2:
			writers.append(child(lambda: save(unit + "/" + file, data(7 + i, 2000), flags=0)))
		else:
			writers.append(child(lambda: save(unit + "/" + file, b"+" * 77, flags=os.O_APPEND)))
	writers += [child(lambda: save(unit + "/sub/late%d" % i, data(i, 100))) for i in range(4)]
	writers += [child(lambda: os.symlink("late0", unit + "/sub/link%d" % i)) for i in range(2)]
	all_end(writers)
	content["sub"] = None
	for i in range(4):
		file = "__%d_0.distcp" % i
		was = content[file]
		now = read(unit + "/" + file)
		new = data(8 + 2 * i, 2000)
		assert now in (new, new + b"+" * 77), (file, len(now))
		assert os.pread(old[i], 9999, 0) == was, "what was open keeps the old bytes"
		os.close(old[i])
		content[file] = now
		content["sub/late%d" % i] = data(i, 100)
	content["sub/link0"] = content["sub/link1"] = "late0"
	wait_for(unit)
	is_whole(name, content)
assert failures() == [] and not staging(), failures()
END
umount_ckptfs
