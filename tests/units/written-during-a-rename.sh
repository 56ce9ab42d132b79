#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that is written again while a rename of it waits for its publish is what gets the new name, not its older one.
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
x, y = mnt + "/x.pt", mnt + "/y.pt"
content = data(1, MB)
save(x, b"older")
published()
fd = os.open(x, os.O_TRUNC | os.O_RDWR)
os.ftruncate(fd, MB)
mapped = mmap.mmap(fd, MB)
with flush_held():
	os.write(fd, content[:1000] + bytes(MB - 1000))
	os.close(os.dup(fd))
	assert pending()["x.pt"] == "sealed", pending()
	renamer = child(lambda: os.rename(x, y))
	wait(lambda: any(w["op"].startswith("RENAME") for w in status()["requests"]["waiting"]))
	mapped[1000:] = content[1000:]
	assert ctypes.CDLL(None).sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), 7) == 0 # unlike msync, beside a rename
assert reap(renamer) == 0
assert names() == ["y.pt"], names()
mapped.close()
os.close(fd)
published()
assert names() == ["y.pt"], names()
assert read(y) == content == read(back + "/y.pt")
verify(back + "/y.pt")
assert failures() == [] and not staging()
END
umount_ckptfs
