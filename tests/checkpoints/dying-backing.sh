#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The backing fails when a checkpoint is to be committed: that is told, nothing has its name, and the mount goes on.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
loop_fs xfs 400 "$TEST_TMP/disk"
mount_ckptfs -o quiet_s=3600,io_retry_s=1 "$TEST_TMP/disk"
program <<'END'
from checkpoints import *
import struct

unit = mnt + "/step-1"
begin(unit)
wait(lambda: all(g["path"] == "step-1" for g in status()["pending"])) # its files are durable
held = os.open(unit + "/__0_0.distcp", os.O_WRONLY)
assert ckptfs("commit", unit)[0] == 0
disk = os.open(back, os.O_RDONLY)
fcntl.ioctl(disk, 0x8004587d, struct.pack("I", 2)) # the shutdown of the filesystem, without its log
os.close(disk)
os.close(held)
wait(lambda: any("was not committed: " in f["message"] for f in failures()))
END
