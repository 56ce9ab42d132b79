#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# RENAME_NOREPLACE and RENAME_EXCHANGE of files that are not published yet do what they do on a plain filesystem, or are
# refused with EBUSY while a name to be exchanged is being written; nothing is lost then.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
status_is "s['features']['rename_flags'] == 'yes'" || skip "no renames with flags"
status_is "s['features']['odirect'] == 'yes'" || skip "no O_DIRECT: nothing waits before it is published"
program <<'END'
from units import *

libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2

def rename(a, b, flags):
	if libc.renameat2(-100, (mnt + "/" + a).encode(), -100, (mnt + "/" + b).encode(), flags):
		raise OSError(ctypes.get_errno(), "renameat2")

one, two, three = (data(seed, 2 * MB + seed) for seed in range(3))

# NOREPLACE: what is in the way may be on the backing or in the cache alone.
save(mnt + "/there.pt", one)
published()
with flush_held():
	save(mnt + "/a.pt", two)
	save(mnt + "/b.pt", three)
	fails(errno.EEXIST, rename, "a.pt", "b.pt", NOREPLACE)
	fails(errno.EEXIST, rename, "a.pt", "there.pt", NOREPLACE)
	fails(errno.EEXIST, rename, "there.pt", "a.pt", NOREPLACE)
	assert read(mnt + "/a.pt") == two and read(mnt + "/b.pt") == three and read(mnt + "/there.pt") == one
	rename("a.pt", "c.pt", NOREPLACE)
	assert read(mnt + "/c.pt") == two and names() == ["b.pt", "c.pt", "there.pt"], names()
published()
assert read(back + "/c.pt") == two and read(back + "/b.pt") == three and read(back + "/there.pt") == one

# EXCHANGE: of two that are closed it happens on the backing, once they are there.
for a, b in ("c.pt", "b.pt"), ("c.pt", "there.pt"), ("there.pt", "c.pt"):
	before = read(mnt + "/" + a), read(mnt + "/" + b)
	rename(a, b, EXCHANGE)
	assert (read(mnt + "/" + b), read(mnt + "/" + a)) == before
	assert (read(back + "/" + b), read(back + "/" + a)) == before
	verify(back + "/" + a)
	verify(back + "/" + b)
	save(mnt + "/" + a, before[0][::-1])
	rename(a, b, EXCHANGE)
	published()
	assert read(mnt + "/" + a) == before[0] == read(back + "/" + a)
	assert read(mnt + "/" + b) == before[0][::-1] == read(back + "/" + b)
	verify(back + "/" + a)
	verify(back + "/" + b)

# While one is being written they cannot change places, and both stay what they are.
for mine in "there.pt", "new.pt":
	before = read(mnt + "/b.pt")
	with open(mnt + "/" + mine, "wb") as f:
		f.write(three)
		f.flush()
		fails(errno.EBUSY, rename, mine, "b.pt", EXCHANGE)
		fails(errno.EBUSY, rename, "b.pt", mine, EXCHANGE)
		assert read(mnt + "/" + mine) == three and read(mnt + "/b.pt") == before
	published()
	assert read(back + "/" + mine) == three and read(back + "/b.pt") == before
fails(errno.ENOENT, rename, "b.pt", "nothing.pt", EXCHANGE)
fails(errno.ENOENT, rename, "nothing.pt", "b.pt", EXCHANGE)
assert failures() == [] and not staging()
END
umount_ckptfs
