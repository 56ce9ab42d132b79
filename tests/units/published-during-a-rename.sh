#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that is published while a rename of it waits for what has the new name gets that name, and the rename succeeds.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs -o flush_bw=1M "$TEST_TMP/disk"
program <<'END'
from units import *
x, y = mnt + "/x.pt", mnt + "/y.pt"
content = data(1, 1000)
save(x, b"older")
published()
fd = os.open(x, os.O_TRUNC | os.O_WRONLY)
os.write(fd, content)
os.fsync(fd)
save(y, data(2, 6 * MB))
renamer = child(lambda: os.rename(x, y))
wait(lambda: any(w["op"].startswith("RENAME") for w in status()["requests"]["waiting"]))
os.close(fd)
assert "y.pt" in pending() and read(back + "/x.pt") == content
assert reap(renamer) == 0
assert names() == ["y.pt"] and read(y) == content == read(back + "/y.pt")
published()
verify(back + "/y.pt")
assert failures() == [] and not staging()
END
umount_ckptfs
