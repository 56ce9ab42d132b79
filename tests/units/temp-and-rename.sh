#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Saves under a temporary name that is renamed over the real one, before, while and after it is published: the name
# shows the new content from the rename on, and on the backing the old one until it is replaced.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
status_is "s['features']['odirect'] == 'yes'" || skip "no O_DIRECT: nothing waits before it is published"
program <<'END'
from units import *

old, new = safetensors(1, 3 * MB + 7), safetensors(2, 4 * MB + 9)
os.mkdir(mnt + "/d")

def on(path):
	"""What the backing has there, or None."""
	return read(back + "/" + path) if os.path.exists(back + "/" + path) else None

# Temporary name, name, whether the temporary one is itself a unit's: else its data goes there with the rename.
cases = [("x.pt.tmp", "x.pt", True), (".tmpAbC123", "m.safetensors", True), ("d/.tmpzzzzzz", "far.pt", True),
	("d/tmpabcd12_9", "z.ckpt", True), ("tmp.pt", "d/other.pt", True), ("x.pt.new", "y.pt", False), ("d/something", "z.ckpt", False)]

for temp, name, unit in cases:
	for replaces in False, True:
		if replaces:
			save(mnt + "/" + name, old)
			published()
		before = on(name)
		assert (before is not None) == replaces
		number = None
		if unit:
			with flush_held():
				with open(mnt + "/" + temp, "wb") as f:
					f.write(new)
					number = os.fstat(f.fileno()).st_ino
				os.rename(mnt + "/" + temp, mnt + "/" + name)
				assert read(mnt + "/" + name) == new and inode(mnt + "/" + name) == number
				assert on(name) == before and on(temp) is None
				assert not os.path.exists(mnt + "/" + temp)
				assert pending() == {name: "sealed"}, pending()
				listed = names() + ["d/" + n for n in names(mnt + "/d")]
				assert listed.count(name) == 1 and listed.count(temp) == 0, listed
		else:
			save(mnt + "/" + temp, new)
			number = inode(mnt + "/" + temp)
			os.rename(mnt + "/" + temp, mnt + "/" + name)
		published()
		assert on(name) == new == read(mnt + "/" + name) and on(temp) is None, (temp, replaces, os.listdir(back))
		assert inode(mnt + "/" + name) == number == inode(back + "/" + name)
		if unit:
			verify(back + "/" + name)
		assert not staging() and not staging(back + "/d")
		# Published first, renamed then.
		save(mnt + "/" + temp, old)
		published()
		os.rename(mnt + "/" + temp, mnt + "/" + name)
		assert on(name) == old == read(mnt + "/" + name) and on(temp) is None
		if unit:
			verify(back + "/" + name)
		# Open while it is renamed, before any of it is on the backing, and written on.
		with open(mnt + "/" + temp, "wb") as f:
			f.write(new[:2 * MB])
			f.flush()
			os.rename(mnt + "/" + temp, mnt + "/" + name)
			assert read(mnt + "/" + name) == new[:2 * MB]
			f.write(new[2 * MB:])
			f.flush()
			assert read(mnt + "/" + name) == new
			if unit:
				assert on(name) == old, "published though it is being written"
		published()
		assert on(name) == new == read(mnt + "/" + name)
		if unit:
			verify(back + "/" + name)
		os.unlink(mnt + "/" + name)

# Twice in a row, faster than the storage; old names of both are free at once.
save(mnt + "/x.pt", old)
published()
assert on("x.pt") == old
with flush_held():
	for nr in range(3):
		save(mnt + "/x.pt.tmp", data(nr, 2 * MB))
		os.rename(mnt + "/x.pt.tmp", mnt + "/x.pt")
		assert read(mnt + "/x.pt") == data(nr, 2 * MB)
		assert not os.path.exists(mnt + "/x.pt.tmp") and on("x.pt") == old
published()
assert failures() == [], failures()
assert on("x.pt") == data(2, 2 * MB) and not staging()
verify(back + "/x.pt")

# Made empty first, which is published, then written: the new name does not get the empty one meanwhile, nor wait.
for temp in "x.pt.tmp", "d/tmpabcd12_9":
	save(mnt + "/x.pt", old)
	save(mnt + "/" + temp, b"")
	published()
	assert on(temp) == b"" and on("x.pt") == old
	with flush_held():
		save(mnt + "/" + temp, new)
		os.rename(mnt + "/" + temp, mnt + "/x.pt")
		assert read(mnt + "/x.pt") == new and not os.path.exists(mnt + "/" + temp)
		assert on("x.pt") == old and on(temp) is None
	published()
	assert on("x.pt") == new and not staging() and not staging(back + "/d")
	save(mnt + "/" + temp, b"")
	published()
	with open(mnt + "/" + temp, "wb") as f:
		f.write(old)
		f.flush()
		os.rename(mnt + "/" + temp, mnt + "/x.pt")
		assert on("x.pt") == new and on(temp) is None
	published()
	assert on("x.pt") == old == read(mnt + "/x.pt")
	verify(back + "/x.pt")
os.unlink(mnt + "/x.pt")

# Away again, over another unpublished one, and back; only names change.
with flush_held():
	save(mnt + "/a.pt", old)
	save(mnt + "/b.pt", new)
	os.rename(mnt + "/a.pt", mnt + "/b.pt")
	assert not os.path.exists(mnt + "/a.pt") and read(mnt + "/b.pt") == old
	os.rename(mnt + "/b.pt", mnt + "/d/a.pt")
	os.rename(mnt + "/d", mnt + "/e")
	assert read(mnt + "/e/a.pt") == old and names(mnt + "/e") == ["a.pt"]
	os.rename(mnt + "/e/a.pt", mnt + "/a.pt")
	os.rename(mnt + "/a.pt", mnt + "/a.pt")
	assert names().count("a.pt") == 1 and names(mnt + "/e") == []
published()
assert on("a.pt") == old and on("b.pt") is None and not staging() and not staging(back + "/e")
os.rmdir(mnt + "/e")
verify(back + "/a.pt")

# The name of one that replaces another is renamed: both names follow.
def rename_away(path, other):
	"""On whatever directory: x.pt is written anew, and renamed while open; what is where then."""
	save(path + "/r.pt", old)
	with open(path + "/r.pt", "wb") as f:
		f.write(new)
		f.flush()
		os.rename(path + "/r.pt", path + "/" + other)
		assert not os.path.exists(path + "/r.pt")
	assert read(path + "/" + other) == new
os.mkdir(mnt + "/plain")
for other in "s.pt", "s.bin":
	rename_away(mnt + "/plain", other)
	published()
	assert other in names(mnt + "/plain") and names(back + "/plain") == names(mnt + "/plain")
	assert read(back + "/plain/" + other) == new

# A name that is no unit's; a unit again.
with flush_held():
	save(mnt + "/u.pt", new)
	os.rename(mnt + "/u.pt", mnt + "/u.bin")
	assert read(mnt + "/u.bin") == new
published()
assert on("u.bin") == new and on("u.pt") is None
os.rename(mnt + "/u.bin", mnt + "/u.pt")
assert on("u.pt") == new
assert failures() == [], failures()
END
umount_ckptfs
