#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Changes made on the backing itself show at the next open or stat; names that were missing are not remembered; what is
# open keeps its inode when its name is given to another.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" "$BACK" <<'END'
import os, shutil, sys
mnt, back = sys.argv[1:]
for i in range(300):
	assert not os.path.exists(mnt + "/f")
	open(back + "/f", "w").write("a%d" % i)
	assert open(mnt + "/f").read() == "a%d" % i
	with open(mnt + "/f") as held:
		open(back + "/f", "w").write("b%d" % i)
		assert open(mnt + "/f").read() == "b%d" % i and held.read() == "b%d" % i
		os.unlink(back + "/f")
		open(back + "/f", "w").write("c%d" % i)
		assert open(mnt + "/f").read() == "c%d" % i
		held.seek(0)
		assert held.read() == "b%d" % i
	os.mkdir(back + "/f.d")
	open(mnt + "/f.d/in", "w").close()
	shutil.rmtree(back + "/f.d")
	try:
		open(mnt + "/f.d/in", "w").close()
		raise AssertionError("made a file in a directory that is gone")
	except FileNotFoundError:
		pass
	open(back + "/f.d", "w").write("now a file") # what was a directory
	assert open(mnt + "/f.d").read() == "now a file"
	os.unlink(back + "/f.d")
	os.rename(back + "/f", back + "/f.moved")
	assert not os.path.exists(mnt + "/f") and open(mnt + "/f.moved").read() == "c%d" % i
	os.symlink("f.moved", back + "/f")
	assert os.readlink(mnt + "/f") == "f.moved" and open(mnt + "/f").read() == "c%d" % i
	os.unlink(back + "/f")
	os.unlink(mnt + "/f.moved")
assert os.listdir(back) == [".ckptfs"] or os.listdir(back) == [], os.listdir(back)
END
umount_ckptfs
