#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# After an fsync the next close of the file, a rename of it, and an fsync of its directory return when it is published;
# without one, close returns at once and nothing is promised.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"

def there(path, content):
	"""Is it published now, not later?"""
	assert pending() == {}, pending()
	got = read(back + "/" + path)
	assert got == content, (path, len(got), len(content), failures())
	verify(back + "/" + path)

def sync_dir(path=mnt):
	fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
	os.fsync(fd)
	os.close(fd)

for nr in range(8):
	content = data(nr, 2 * MB + nr * 1111111 % MB)
	# fsync, close; fdatasync too.
	fd = os.open(x, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
	os.write(fd, content)
	(os.fdatasync if nr % 2 else os.fsync)(fd)
	assert nr == 0 or read(on_backing) != content, "published though it is open"
	os.close(fd)
	there("x.pt", content)

	# fsync, close, rename; with an fsync of the directory.
	fd = os.open(x + ".tmp", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
	os.write(fd, content[::-1])
	os.fsync(fd)
	os.close(fd)
	os.rename(x + ".tmp", x)
	there("x.pt", content[::-1])
	sync_dir()
	there("x.pt", content[::-1])

	# fsync, rename while open, close.
	fd = os.open(x + ".tmp", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
	os.write(fd, content)
	os.fsync(fd)
	os.rename(x + ".tmp", x)
	os.close(fd)
	there("x.pt", content)

	# Closed, then synced by name, as programs do that were not told of the descriptor.
	for flags in os.O_RDONLY, os.O_RDWR, os.O_WRONLY:
		save(x, content[flags:])
		fd = os.open(x, flags)
		os.fsync(fd)
		os.close(fd)
		assert read(on_backing) == content[flags:]
		published() # nothing was changed: that is put away when the kernel tells of the close
		there("x.pt", content[flags:])

	# Closed and renamed before it was synced by name.
	save(x + ".tmp", content)
	os.rename(x + ".tmp", x)
	fd = os.open(x, os.O_RDONLY)
	os.fsync(fd)
	os.close(fd)
	there("x.pt", content)

	# O_SYNC: what was written is on the storage when write returns.
	fd = os.open(x, os.O_TRUNC | os.O_WRONLY | os.O_SYNC)
	os.write(fd, content)
	os.close(fd)
	published()
	there("x.pt", content)

# fsync of a directory waits for what in it was synced and closed, not for more: that would be to wait for the storage.
with gate_closed():
	save(mnt + "/unsynced.pt", data(1, 3 * MB))
	save(x, data(2, 3 * MB)) # at once
	assert set(pending()) == {"x.pt", "unsynced.pt"}
assert failures() == [], failures()
published()
END
umount_ckptfs
