#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Directories 500 levels deep, their path longer than PATH_MAX: made, used, walked, moved and removed.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" <<'END'
import os, sys
LEVELS = 500
os.chdir(sys.argv[1])
os.mkdir("top")
os.chdir("top")
for i in range(LEVELS):
	os.mkdir("level-%04d" % i)
	os.chdir("level-%04d" % i)
open("bottom", "w").write("deep")
here = os.open(".", os.O_RDONLY)
os.chdir(sys.argv[1])
os.rename("top", "moved")
assert os.stat("bottom", dir_fd=here).st_size == 4
os.close(os.open("beside", os.O_CREAT | os.O_WRONLY, dir_fd=here))
os.chdir("moved")
for i in range(LEVELS):
	assert os.listdir(".") == ["level-%04d" % i]
	os.chdir("level-%04d" % i)
assert sorted(os.listdir(".")) == ["beside", "bottom"] and open("bottom").read() == "deep"
for i in range(LEVELS):
	os.chdir("..")
assert os.path.samefile(".", sys.argv[1] + "/moved")
END
assert_eq "$(find "$MNT/moved" | wc -l)" 503
expect_ok rm -r "$MNT/moved"
assert_eq "$(ls "$BACK")" ""
umount_ckptfs
