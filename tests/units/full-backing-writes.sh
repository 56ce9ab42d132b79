#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A save for which the backing has no room: the old file stays whole, the program gets ENOSPC or finds it in
# failures.json, and with room again the next save works. With a backing that is small from the start, and with one
# that fills up while the save is in the cache.
#
# needs: root

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
