#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What is written while another program's open cuts the file comes before or after that, not half of both: the size fits
# the bytes, in the mount and on the backing, and so does the digest.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
needs fsfreeze
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *
x = mnt + "/x.pt"
content = data(1, 100000)
fd = os.open(x, os.O_CREAT | os.O_WRONLY)
os.write(fd, b"x")
os.fsync(fd)
subprocess.run(["fsfreeze", "-f", back], check=True)
try:
	cutter = child(lambda: os.close(os.open(x, os.O_TRUNC | os.O_WRONLY)))
	wait(lambda: any(w["op"] == "OPEN" for w in status()["requests"]["waiting"]))
	writer = child(lambda: os.pwrite(fd, content, 0))
	wait(lambda: status()["requests"]["in_flight"] > 1 or os.waitid(os.P_PID, writer, os.WEXITED | os.WNOWAIT | os.WNOHANG))
finally:
	subprocess.run(["fsfreeze", "-u", back], check=True)
assert reap(cutter) == 0 == reap(writer)
os.close(fd)
published()
got = read(back + "/x.pt")
assert got == read(x) and got in (content, b""), len(got)
verify(back + "/x.pt")
assert failures() == [], failures()
END
umount_ckptfs
