#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An open that cuts a file and is interrupted takes nothing from who wrote to it.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1,flush_bw=1M "$TEST_TMP/disk"
program "$TEST_TMP/disk" <<'END'
from units import *
import fcntl

# No child freezes it, or asks what waits: one would close its copy of the open file, and wait for that.
def waiting():
	with open(mnt + "/.ckptfs/status.json") as f:
		return json.load(f)["requests"]["waiting"]

disk = os.open(sys.argv[1], os.O_RDONLY)
FIFREEZE, FITHAW = 0xc0045877, 0xc0045878

x = mnt + "/x.dat"
content = data(1, 8 * MB)
fd = os.open(x, os.O_CREAT | os.O_RDWR, 0o644)
os.write(fd, content)
fcntl.ioctl(disk, FIFREEZE, 0)
try:
	cuts = child(lambda: os.open(x, os.O_WRONLY | os.O_TRUNC))
	wait(lambda: any(w["op"] == "OPEN" for w in waiting()))
	os.kill(cuts, signal.SIGKILL)
	assert reap(cuts) == -9
finally:
	fcntl.ioctl(disk, FITHAW, 0)
os.fsync(fd)
got = os.pread(fd, 9 * MB, 0)
os.close(fd)
assert got in (content, b""), "neither the old content nor none: %d bytes" % len(got)
END
umount_ckptfs
