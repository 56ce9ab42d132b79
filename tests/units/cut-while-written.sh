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
content = data(1, 100000)

def waits(op):
	return sum(w["op"] == op for w in status()["requests"]["waiting"])

def cut_and_write(flags, nr):
	"""In nr files, with the backing frozen meanwhile."""
	files = ["%d.pt" % i for i in range(nr)]
	fds = [os.open(mnt + "/" + name, os.O_CREAT | os.O_WRONLY | flags) for name in files]
	for fd in fds:
		os.write(fd, b"x")
		os.fsync(fd)
	subprocess.run(["fsfreeze", "-f", back], check=True)
	try:
		cutters = [child(lambda name=name: os.close(os.open(mnt + "/" + name, os.O_TRUNC | os.O_WRONLY)))
			for name in files]
		wait(lambda: waits("OPEN") == nr)
		writers = [child(lambda fd=fd: os.pwrite(fd, content, 0)) for fd in fds]
		wait(lambda: waits("WRITE") == nr or all(os.waitid(os.P_PID, p, os.WEXITED | os.WNOWAIT | os.WNOHANG)
			for p in writers))
	finally:
		subprocess.run(["fsfreeze", "-u", back], check=True)
	assert [reap(pid) for pid in cutters + writers] == [0] * 2 * nr
	for fd in fds:
		os.close(fd)
	published()
	for name in files:
		got = read(back + "/" + name)
		assert got == read(mnt + "/" + name) and got in (content, b""), (name, len(got))
		verify(back + "/" + name)
		os.unlink(mnt + "/" + name)

cut_and_write(0, 1)
cut_and_write(os.O_DSYNC, 7)
assert failures() == [], failures()
END
umount_ckptfs
