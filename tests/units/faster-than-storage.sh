#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Saves that come faster than the storage takes them: the backing always has a whole one, never an older one than
# before, and the mount the newest; the last one ends up published; by one program in a row, by several, under several names for one.
#
# timeout: 90
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 512 "$TEST_TMP/disk"
mount_ckptfs -o flush_bw=30M "$TEST_TMP/disk"
program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"

def content(nr, size=MB + 1023):
	return (b"%08d" % nr) * (size // 8) + b"%08d" % nr

def number(path):
	"""Of the content there, which is whole."""
	got = read(path)
	nr = int(got[:8])
	assert got == content(nr), "torn: %s" % path
	return nr

# In a row, over each other, while somebody watches.
save(x, content(0))
published()
def watch():
	last = 0
	while last < 19:
		seen = number(on_backing)
		assert seen >= last, (seen, last)
		last = seen
watcher = child(watch)
for nr in range(1, 20):
	save(x, content(nr))
	assert number(x) == nr
assert reap(watcher) == 0
published()
assert number(on_backing) == number(x) == 19
verify(on_backing)

# By rename, under temporary names of its own or under one, in place and by removal, in turn.
for nr in range(20, 60):
	how = nr % 4
	if how == 0:
		save(x, content(nr))
	elif how == 1:
		save(mnt + "/x.pt.tmp", content(nr))
		os.rename(mnt + "/x.pt.tmp", x)
	elif how == 2:
		save(mnt + "/tmp%d.pt" % nr, content(nr))
		os.rename(mnt + "/tmp%d.pt" % nr, x)
	else:
		os.unlink(x)
		assert not os.path.exists(x)
		save(x, content(nr), os.O_EXCL)
	assert number(x) == nr
	assert names() == ["x.pt"], (nr, names())
published()
assert number(on_backing) == 59 and names(back) == [".ckptfs", "x.pt"], names(back)
verify(on_backing)

# Several processes over one name: each save is whole, and one of the last is there at the end.
def saver(first):
	for nr in range(first, first + 10):
		save(mnt + "/%d.pt" % first, content(nr))
		os.rename(mnt + "/%d.pt" % first, x)
		number(x)
children = [child(lambda first=first: saver(first)) for first in range(100, 500, 100)]
while children:
	number(x)
	number(on_backing)
	children = [pid for pid in children if not os.waitpid(pid, os.WNOHANG)[0]]
published()
assert number(on_backing) == number(x) and number(x) % 100 == 9, number(x)
assert names(back) == [".ckptfs", "x.pt"], names(back)
verify(on_backing)
assert failures() == [], failures()
END
umount_ckptfs
