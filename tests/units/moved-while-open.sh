#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that is renamed while somebody has it open for writing is not lost, whatever becomes of that one.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *
wrong = []
content = data(1, MB)
x, y = mnt + "/x.pt", mnt + "/y.pt"
for what in "closed unwritten", "killed", "written":
	for replaces in False, True:
		save(x, content)
		if replaces:
			save(y, b"another")
		published()
		r, w = os.pipe()
		r2, w2 = os.pipe()
		def holds():
			fd = os.open(x, os.O_RDWR)
			if what != "closed unwritten":
				os.pwrite(fd, b"change", 0)
			os.write(w, b"x")
			os.read(r2, 1)
			if what == "killed":
				os.kill(os.getpid(), signal.SIGKILL)
			os.close(fd)
		p = child(holds)
		os.read(r, 1)
		os.rename(x, y)
		assert len(read(y)) == MB
		os.write(w2, b"x")
		reap(p)
		published()
		left = {n: len(read(mnt + "/" + n)) for n in names()}
		print(what, replaces, left)
		if MB not in left.values():
			wrong.append((what, replaces, left))
		for n in names():
			os.unlink(mnt + "/" + n)
		failures()
assert not wrong, wrong
END
umount_ckptfs
