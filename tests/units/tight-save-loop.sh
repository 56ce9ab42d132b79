#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One program saves the same name again and again, at once, in each of the ways there are: no call fails, what it reads is
# what it saved last, and that is what ends up published.
#
# timeout: 120
# long: 120
# cpu: 20
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 300 "$TEST_TMP/disk"

saves_in_a_row() {
	mount_ckptfs -o "$1" "$TEST_TMP/disk"
	program <<'END'
from units import *

def content(nr):
	return data(nr, (0, 1, 4096, 300000, MB, 2 * MB + 5)[nr % 6])

def plainly(path, nr):
	with open(path, "wb") as f:
		f.write(content(nr))

def truncated(path, nr):
	fd = os.open(path, os.O_CREAT | os.O_RDWR)
	os.ftruncate(fd, 0)
	os.write(fd, content(nr))
	os.close(fd)

def synced(path, nr):
	with open(path, "wb") as f:
		f.write(content(nr))
		f.flush()
		nr % 5 or os.fsync(f.fileno())

def renamed(path, nr):
	plainly(path + ".tmp", nr)
	os.replace(path + ".tmp", path)

def renamed_open(path, nr):
	with open(path + ".tmp", "wb") as f:
		f.write(content(nr)[:1000])
		f.flush()
		os.replace(path + ".tmp", path)
		f.write(content(nr)[1000:])

def removed_first(path, nr):
	if nr:
		os.unlink(path)
	plainly(path, nr)

def over_the_last(path, nr):
	"""In two directories, in turn."""
	other = mnt + "/d/%d.pt" % (nr % 2)
	plainly(other, nr)
	os.replace(other, path)

def by_others(path, nr):
	assert reap(child(lambda: plainly(path, nr))) == 0

def in_turn(path, nr):
	ways[nr % (len(ways) - 1)](path, nr)

TIMES = 50 if is_long else 12 # each way, twice; of each size
os.mkdir(mnt + "/d")
ways = [plainly, truncated, synced, renamed, renamed_open, removed_first, over_the_last, by_others, in_turn]
for reads in True, False:
	for way in ways:
		path = mnt + "/" + way.__name__ + ".pt"
		if os.path.exists(path):
			os.unlink(path)
		for nr in range(TIMES):
			way(path, nr)
			if reads:
				assert read(path) == content(nr), (way, nr)
				assert os.stat(path).st_size == len(content(nr)), (way, nr)
	for way in ways:
		path = way.__name__ + ".pt"
		wait_for(mnt + "/" + path)
		assert read(back + "/" + path) == content(TIMES - 1) == read(mnt + "/" + path), way
		verify(back + "/" + path)
published()
assert names() == sorted(["d"] + [way.__name__ + ".pt" for way in ways]), names()
assert names(mnt + "/d") == os.listdir(back + "/d") == []
assert failures() == [] and not staging(), failures()
END
	umount_ckptfs
	rm -r "$TEST_TMP/disk/"*.pt "$TEST_TMP/disk/d"
}

saves_in_a_row host_cache_size=64M
saves_in_a_row host_cache_size=8M,flush_bw=60M
