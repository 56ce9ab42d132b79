#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file of a committed checkpoint is written by who has had it mapped, or open, since before the commit: that is refused,
# said, and what is committed stays as it is. Who opens it anew may change it.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *

unit = mnt + "/step-1"
content = begin(unit)
fd = os.open(unit + "/__0_0.distcp", os.O_RDWR)
os.write(fd, content["__0_0.distcp"])
mapped = mmap.mmap(fd, 1000)
os.close(fd)
told, go = os.pipe(), os.pipe()
def later():
	fd = os.open(unit + "/__1_0.distcp", os.O_RDWR)
	os.write(fd, content["__1_0.distcp"])
	os.close(os.dup(fd)) # for ckptfs it is closed by that; the descriptor is still there
	os.write(told[1], b"x")
	os.read(go[0], 1)
	fails(errno.ESTALE, os.pwrite, fd, b"torn", 10)
	fails(errno.ESTALE, os.ftruncate, fd, 10)
pid = child(later)
assert os.read(told[0], 1) == b"x"
end(unit, content)
wait_for(unit)

mapped[:4] = b"torn"
fails(errno.ESTALE, mapped.flush)
os.write(go[1], b"x")
assert reap(pid) == 0
assert any(f["op"] == "write" and "open the file again" in f["message"] for f in failures()), failures()
verify(back + "/step-1")
assert tree(back + "/step-1") == content
save(unit + "/__1_0.distcp", b"new")
assert tree(back + "/step-1") == content
assert ckptfs("commit", unit)[0] == 0
wait_for(unit)
assert read(back + "/step-1/__1_0.distcp") == b"new"
verify(back + "/step-1")
mapped.close()
END
