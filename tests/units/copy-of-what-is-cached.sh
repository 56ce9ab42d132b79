#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Who opens a file to change it gets what another program wrote before, also what is in the cache only.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
program <<'END'
from units import *

x = mnt + "/x.pt"
first, second = data(1, MB), data(2, MB)
# Not a checkpoint by its name, then renamed over one, and written on.
fd = os.open(mnt + "/x.dat", os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, first)
os.rename(mnt + "/x.dat", x)
with flush_held():
	os.write(fd, second)
	assert os.stat(x).st_size == 2 * MB
	assert read(x) == first + second
	def changes(): # waits for what is cached to be on the backing
		f = os.open(x, os.O_RDWR)
		assert os.pread(f, 4 * MB, 0) == first + second
		os.pwrite(f, b"change", 0)
		os.close(f)
	pid = child(changes)
assert reap(pid) == 0
os.close(fd)
published()
assert read(x) == b"change" + (first + second)[6:], len(read(x))
END
umount_ckptfs
