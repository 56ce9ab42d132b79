#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fsync and close of a save do not wait for the descriptors that are left of an older one.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs -o quiet_s=3600 "$TEST_TMP/disk"
program <<'END'
from units import *

x = mnt + "/x.pt"
fd = os.open(x, os.O_CREAT | os.O_WRONLY, 0o644)
left = os.dup(fd)
os.write(fd, b"one")
os.close(fd)
wait(lambda: pending() == {"x.pt": "sealed"})
fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"two")
os.fsync(fd)
os.close(fd)
assert read(back + "/x.pt") == b"two"
os.close(left)
END
umount_ckptfs
