#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# That a flush failed is told to who wrote, although another program asked about the file before.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 120 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1,flush_bw=256K,io_retry_s=1 "$TEST_TMP/disk"
program <<'END'
from units import *
x = mnt + "/x.dat"
r, w = os.pipe()
def fills():
	os.read(r, 1)
	fill_up(back + "/full")
p = child(fills)
fd = os.open(x, os.O_CREAT | os.O_WRONLY, 0o644)
assert os.write(fd, data(1, 6 * MB)) == 6 * MB
os.write(w, b"x")
wait(lambda: any(f["op"] == "flush" for f in failures()), 40)
other = os.open(x, os.O_RDONLY)
try:
	print("SEEK_DATA:", os.lseek(other, 0, os.SEEK_DATA))
except OSError as e:
	print("reader got", e)
def told():
	try:
		os.fsync(fd)
	except OSError as e:
		print("fsync", e)
		return True
	try:
		os.close(fd)
	except OSError as e:
		print("close", e)
		return True
ok = told()
os.unlink(back + "/full")
assert ok, "neither fsync nor close told, %d bytes are there" % (os.stat(back + "/x.dat").st_blocks * 512)
END
umount_ckptfs
