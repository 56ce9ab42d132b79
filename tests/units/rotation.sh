#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# cpu: 20
# A trainer that keeps its last two checkpoints, and removes the oldest before or after it saves: whenever others look,
# the newest that it calls finished is there, whole; on the backing, where only published ones are, each is whole.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 300 "$TEST_TMP/disk"
mount_ckptfs -o flush_bw=60M,host_cache_size=16M "$TEST_TMP/disk"
program <<'END'
from units import *

ROUNDS = 40

def content(nr):
	return (b"%08d" % nr) * ((MB + nr * 54321) // 8) + b"%08d" % nr

def number(got):
	nr = int(got[:8])
	assert got == content(nr), "torn: %d of %d bytes of %d" % (len(got), len(content(nr)), nr)
	return nr

def tell(top, name):
	"""As trainers do it: a small file with the name of the newest."""
	with open(top + "/latest.new", "w", encoding="ascii") as f:
		f.write(name)
	os.replace(top + "/latest.new", top + "/latest")

def rotate(top, how, first):
	for nr in range(1, ROUNDS):
		path = "%s/step-%d.pt" % (top, nr)
		oldest = "%s/step-%d.pt" % (top, nr - 2)
		if first and os.path.exists(oldest):
			os.unlink(oldest)
		if how == "direct":
			save(path, content(nr))
		elif how == "temporary":
			save(path + ".tmp", content(nr))
			os.replace(path + ".tmp", path)
		else:
			with open(path, "wb") as f:
				f.write(content(nr))
				f.flush()
				os.fsync(f.fileno())
		tell(top, os.path.basename(path))
		if not first and os.path.exists(oldest):
			os.unlink(oldest)
		here = sorted(name for name in os.listdir(top) if name.endswith(".pt"))
		assert set(here) == {"step-%d.pt" % n for n in (nr, nr - 1)}, here
	tell(top, "end")

def newest(top):
	"""What another program loads; None: it is over."""
	while True:
		name = read(top + "/latest").decode()
		if name == "end":
			return None
		try:
			got = read(top + "/" + name)
		except FileNotFoundError:
			continue # a newer one has been told of, or two, since
		assert name == "step-%d.pt" % number(got)
		return number(got)

def follow(top):
	last = 0
	while True:
		nr = newest(top)
		if nr is None:
			return
		assert nr >= last, (nr, last)
		last = nr

def look(top):
	"""At the backing: whatever is there is whole, and the newest stays until a newer one is there."""
	last = 0
	while read(top + "/latest") != b"end":
		found = [name for name in os.listdir(top) if name.endswith(".pt") and name[0] != "."]
		for name in found:
			with contextlib.suppress(FileNotFoundError):
				assert name == "step-%d.pt" % number(read(top + "/" + name))
		newest_of = max((int(name[5:-3]) for name in found), default=-1)
		if newest_of < last: # they may have changed while they were being listed
			assert any(os.path.exists("%s/step-%d.pt" % (top, nr)) for nr in range(last, ROUNDS)), (found, last)
		last = max(last, newest_of)

for how in "direct", "temporary", "synced":
	for first in True, False:
		top = "/%s-%d" % (how, first)
		os.mkdir(mnt + top)
		save(mnt + top + "/step-0.pt", content(0))
		tell(mnt + top, "step-0.pt")
		wait_for(mnt + top + "/step-0.pt")
		wait(lambda: os.path.exists(back + top + "/latest")) # the pointer follows
		others = [child(lambda: follow(mnt + top)), child(lambda: look(back + top))]
		assert reap(child(lambda: rotate(mnt + top, how, first))) == 0
		assert [reap(pid) for pid in others] == [0, 0], (how, first)
		published()
		wait(lambda: not status()["removals"])
		for nr in ROUNDS - 1, ROUNDS - 2:
			assert number(read("%s/step-%d.pt" % (back + top, nr))) == nr
			verify("%s/step-%d.pt" % (back + top, nr))
		# A staged file that was replaced goes a moment after the save that it waited for.
		wait(lambda: not [name for name in os.listdir(back + top) if name.startswith(".ckptfs-")])
		assert sorted(os.listdir(back + top)) == names(mnt + top) == ["latest"] + [
			"step-%d.pt" % nr for nr in (ROUNDS - 2, ROUNDS - 1)], os.listdir(back + top)
assert failures() == [], failures()
END
umount_ckptfs
