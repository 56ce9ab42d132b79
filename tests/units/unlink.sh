#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that is removed before, while or after it is published is gone, from the mount and from the backing, and stays
# so; who has it open goes on with it; the name is free at once.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
old, new = data(1, 3 * MB + 7), data(2, 4 * MB + 9)

def gone():
	assert not os.path.exists(x) and "x.pt" not in names()
	fails(errno.ENOENT, os.unlink, x)
	assert not os.path.exists(on_backing)

direct = status()["features"]["odirect"] == "yes"
for replaces in False, True:
	# Closed, of one or several saves in a row.
	for saves in 1, 3:
		if not direct:
			break
		if replaces:
			save(x, old)
			published()
		with flush_held():
			for nr in range(saves):
				save(x, data(nr, 2 * MB))
			rm(x)
			gone()
		published()
		gone()
		assert not staging()
	# Open: who writes and reads it goes on.
	if replaces:
		save(x, old)
		published()
	fd = os.open(x, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
	os.write(fd, new[:MB])
	rm(x)
	gone()
	assert os.fstat(fd).st_nlink == 0 and os.fstat(fd).st_size == MB
	os.write(fd, new[MB:])
	assert os.pread(fd, len(new), 0) == new
	os.fsync(fd)
	os.ftruncate(fd, MB + 1)
	assert os.pread(fd, len(new), 0) == new[:MB + 1]
	# The name begins anew, while the removed one is still there.
	save(x, old)
	assert read(x) == old and os.pread(fd, len(new), 0) == new[:MB + 1]
	published()
	assert read(on_backing) == old
	os.write(fd, b"more")
	os.close(fd)
	wait(lambda: status()["open_handles"] == 0)
	published()
	assert read(x) == old == read(on_backing) and not staging()
	verify(on_backing)
	rm(x)
	gone()

# Whatever the moment: removed is removed.
for nr in range(150):
	if nr % 3:
		save(x, old[:100])
	save(x, data(nr, 1000 + nr % 7 * 300000))
	if nr % 2:
		time.sleep(random.Random(nr).random() * 0.03)
	rm(x)
	assert not os.path.exists(x) and "x.pt" not in names(), nr
	if nr % 10 == 9:
		published()
	assert not os.path.exists(x) and not os.path.exists(on_backing), nr
published()
gone()
wait(lambda: status()["cache"]["dirty"] == status()["cache"]["flying"] == 0)
assert not staging() and failures() == [], failures()

# Directories: one with an unpublished file is not empty; with its content it goes.
os.mkdir(mnt + "/d")
f = open(mnt + "/d/x.pt", "wb")
f.write(b"data")
fails(errno.ENOTEMPTY, os.rmdir, mnt + "/d")
os.unlink(mnt + "/d/x.pt")
os.rmdir(mnt + "/d")
f.write(b"more")
f.close()
assert not os.path.exists(back + "/d")
published()
assert failures() == [], failures()
END
umount_ckptfs
