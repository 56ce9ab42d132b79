#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A save for which the backing has no room: the old file stays whole, the program gets ENOSPC or finds it in
# failures.json, and with room again the next save works. With a backing that is small from the start, and with one
# that fills up while the save is in the cache.
#
# needs: root
# timeout: 120

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse

# full SIZE_MB OPTIONS KIND: the program that follows is run with a backing of that size.
full() {
	loop_fs ext4 "$1" "$TEST_TMP/disk.$3"
	mount_ckptfs -o "$2" "$TEST_TMP/disk.$3" "$TEST_TMP/mnt.$3"
	program "$3"
	umount_ckptfs
}

cat >"$TEST_TMP/full.py" <<'END'
from units import *

x, on_backing, filler = mnt + "/x.pt", back + "/x.pt", back + "/filler"
old, new, large = data(1, 5 * MB + 77), data(2, 9 * MB + 3), data(3, 80 * MB)

def kept():
	published()
	assert read(x) == old == read(on_backing)
	verify(on_backing)
	wait(lambda: not staging())
	assert names() == ["x.pt"] or names() == ["filler", "x.pt"], names()

def told(path="x.pt"):
	"""The failure is told of that file."""
	listed = [f for f in failures() if f["path"] == path and f["errno"] == "ENOSPC"]
	assert listed and "No space left" in listed[-1]["message"], failures()

def works_again(content):
	save(x, content)
	wait_for(x)
	assert read(on_backing) == content == read(x)
	verify(on_backing)
	save(x, old)
	wait_for(x)
	kept()
END

full 160 flush_bw=5M cached <<END
$(cat "$TEST_TMP/full.py")
save(x, old)
wait_for(x)

def begin():
	"""It is all in the cache when the room is gone."""
	fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
	os.write(fd, new)
	fill_up(filler)
	return fd

# Closed before: that is found later.
fd = begin()
os.close(fd)
code, said = ckptfs("wait", x)
assert code == 1 and "No space left" in said, said
told()
code, said = ckptfs("why", x)
assert "No space left" in said, said
kept()
os.unlink(filler)
works_again(new)

# Told by fsync, by write and by close.
fd = begin()
fails(errno.ENOSPC, os.fsync, fd)
fails(errno.ENOSPC, os.write, fd, b"more")
fails(errno.ENOSPC, os.close, fd)
kept()
os.unlink(filler)
works_again(new)

# The program goes on, and saves under another name when there is room.
fd = begin()
wait(lambda: len(failures()) and "x.pt" not in pending())
fails(errno.ENOSPC, os.close, fd)
kept()
os.unlink(filler)
save(mnt + "/y.pt", new)
wait_for(mnt + "/y.pt")
assert read(back + "/y.pt") == new
assert ckptfs("status", mnt)[0] == 0
END

full 48 pin_host_cache=false small <<END
$(cat "$TEST_TMP/full.py")
save(x, old)
wait_for(x)

# As programs do that raise the error, as those that leave without a close, and as those that ask for durability.
def raises(sync=False, name=x):
	with open(name, "wb", buffering=0) as f:
		for at in range(0, len(large), MB):
			f.write(large[at:at + MB])
			if sync:
				os.fsync(f.fileno())

def leaves():
	os.close(2)
	raises()

fails(errno.ENOSPC, raises)
kept()
told()
works_again(new)
fails(errno.ENOSPC, raises, True)
kept()
assert reap(child(leaves)) == 1
kept()
fails(errno.ENOSPC, raises, False, x + ".tmp")
os.path.exists(x + ".tmp") and os.unlink(x + ".tmp")
kept()
works_again(new[::-1])
END
