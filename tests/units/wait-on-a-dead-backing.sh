#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# wait and why of a file on a backing that cannot be read say so; it is not as if the file did not exist yet.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs xfs 400 "$TEST_TMP/disk"
mount_ckptfs -o io_retry_s=1 "$TEST_TMP/disk"
program <<'END'
from units import *
import struct

x = mnt + "/x.pt"
save(x, data(1, MB))
wait_for(x)
fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"new")
dir_fd = os.open(back, os.O_RDONLY)
fcntl.ioctl(dir_fd, 0x8004587d, struct.pack("I", 1)) # GOINGDOWN, log flushed
os.close(dir_fd)
fails(errno.EIO, os.fsync, fd)
fails(errno.EIO, os.close, fd)
for verb in ["why"], ["wait", "--timeout", "3"]:
	code, told = ckptfs(*verb, x)
	assert "Input/output error" in told and "absent" not in told and "does not exist" not in told, told
END
umount_ckptfs
