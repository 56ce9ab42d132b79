#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An unpublished file that gets the name of an ordinary one and is written anew.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
status_is "s['features']['odirect'] == 'yes'" || skip "no O_DIRECT"
program <<'END'
from units import *
x, y = mnt + "/x.pt", mnt + "/x.dat"
wrong = []
for size in 200, 100000, MB:
	with flush_held():
		save(x, data(1, MB))
		os.rename(x, y)
		def changes():
			fd = os.open(y, os.O_WRONLY | os.O_TRUNC)
			os.write(fd, data(2, size))
			os.write(fd, b"more")
			os.close(fd)
		pid = child(changes)
	assert reap(pid) == 0
	published()
	if read(y) != data(2, size) + b"more" or read(back + "/x.dat") != data(2, size) + b"more":
		wrong.append((size, len(read(y)), os.stat(back + "/x.dat").st_size))
	c, t = ckptfs("verify", back + "/x.dat")
	if "DAMAGED" in t: wrong.append(t)
	os.unlink(y)
assert not wrong and not failures(), (wrong, failures())
END
umount_ckptfs
