#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A rename of a file that another node removes meanwhile fails, and does no harm to what is being saved under the new name.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
program <<'END'
from units import *
x, other = mnt + "/x.old", mnt + "/other"
content = data(1, MB)
saver = os.open(mnt + "/x.pt", os.O_CREAT | os.O_WRONLY)
os.write(saver, content)
os.rename(mnt + "/x.pt", x)
def rename_other():
	fd = os.open(other, os.O_CREAT | os.O_WRONLY)
	os.write(fd, bytes(MB)) # which the rename has written back first
	fails(errno.ENOENT, os.rename, other, x)
with flush_held():
	renamer = child(rename_other)
	wait(lambda: any(w["op"].startswith("RENAME") for w in status()["requests"]["waiting"]))
	os.unlink(back + "/other")
assert reap(renamer) == 0
assert read(x) == content
os.close(saver)
published()
assert read(back + "/x.old") == content
assert failures() == [], failures()
END
umount_ckptfs
