#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# cpu: 15
# A hundred processes save at once, each to a file of its own, through a cache that holds less than a tenth of it: all
# are published and verify, in whatever way each saves.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 600 "$TEST_TMP/disk"
mount_ckptfs -o host_cache_size=8M "$TEST_TMP/disk"
program <<'END'
from units import *

def path(nr):
	return "%d/rank%02d.pt" % (nr % 4, nr)

def content(nr, version):
	return data((nr, version).__hash__(), MB + nr * 4321 + version)

def one(nr):
	"""Three saves in a row, of which each is read back; the last two over a file that is there."""
	final = mnt + "/" + path(nr)
	os.read(go[0], 1)
	for version in range(3):
		temp = final + ".tmp" if nr % 2 else final
		fd = os.open(temp, os.O_CREAT | os.O_TRUNC | os.O_RDWR)
		new = content(nr, version)
		for at in range(0, len(new), 250000):
			assert os.write(fd, new[at:at + 250000]) == len(new[at:at + 250000])
		if nr % 10 == version:
			os.fsync(fd)
		os.close(fd)
		if nr % 2:
			os.replace(temp, final)
		assert read(final) == new, (nr, version)

for nr in range(4):
	os.mkdir(mnt + "/%d" % nr)
go = os.pipe()
children = [child(lambda nr=nr: one(nr)) for nr in range(100)]
os.write(go[1], b"x" * 100)
assert [reap(pid) for pid in children] == [0] * 100
published()
for nr in range(100):
	assert read(back + "/" + path(nr)) == content(nr, 2) == read(mnt + "/" + path(nr)), nr
code, told = ckptfs("verify", back)
assert code == 0 and told.count("ok ") == 100, told
assert [names(mnt + "/%d" % nr) for nr in range(4)] == [sorted(os.listdir(back + "/%d" % nr)) for nr in range(4)]
cache = status()["cache"]
assert cache["dirty"] == cache["flying"] == cache["waiting"] == 0, cache
assert failures() == [], failures()
END
umount_ckptfs
