#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who changes nothing of another's file in a directory with the sticky bit leaves nothing behind.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
needs setpriv
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
mkdir "$BACK/shared"
chmod 1777 "$BACK/shared"
program <<'END'
from units import *
x = mnt + "/shared/x.pt"
save(x, data(1, MB))
os.chmod(x, 0o666)
published()
def run():
	os.setgroups([])
	os.setgid(1200)
	os.setuid(1200)
	os.close(os.open(x, os.O_RDWR))
assert reap(child(run)) == 0
published()
left = [(n, os.stat(back + "/shared/" + n).st_size) for n in staging(back + "/shared")]
assert not left, left
END
umount_ckptfs
