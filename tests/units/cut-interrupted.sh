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
x = mnt + "/x.dat"
content = data(1, 8 * MB)
r, w = os.pipe()
def cuts():
	os.read(r, 1)
	os.open(x, os.O_WRONLY | os.O_TRUNC)
p = child(cuts)
r2, w2 = os.pipe()
def freezes():
	os.read(r2, 1)
	subprocess.run(["fsfreeze", "-f", sys.argv[1]], check=True)
	time.sleep(2.5)
	os.write(w, b"x")
	time.sleep(1.5)
	waits = os.waitid(os.P_PID, p, os.WNOHANG | os.WEXITED | os.WNOWAIT) if False else None
	os.kill(p, signal.SIGKILL)
	time.sleep(2)
	subprocess.run(["fsfreeze", "-u", sys.argv[1]], check=True)
q = child(freezes)
fd = os.open(x, os.O_CREAT | os.O_RDWR, 0o644)
os.write(fd, content)
os.write(w2, b"x")
reap(q)
print("opener", reap(p))
os.fsync(fd)
got = os.pread(fd, 9 * MB, 0)
print(len(got), got == content, got.count(0), os.fstat(fd).st_size)
os.close(fd)
assert got in (content, b""), "neither the old content nor none"
END
umount_ckptfs
