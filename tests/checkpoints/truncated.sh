#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# truncate(2) of a file of a committed checkpoint is a change of that like any other: what was committed stays whole until
# the change is committed, too.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *

def commit(unit):
	assert ckptfs("commit", unit)[0] == 0
	wait_for(unit)

name, unit = "step-1", mnt + "/step-1"
content = begin(unit, files=4)
# in one that is open
os.truncate(unit + "/__0_0.distcp", 600)
os.truncate(unit + "/__1_0.distcp", 1500)
os.truncate(unit + "/__2_0.distcp", 0)
content["__0_0.distcp"] = content["__0_0.distcp"][:600]
content["__1_0.distcp"] += bytes(500)
content["__2_0.distcp"] = b""
assert tree(unit) == content
end(unit, content)
wait_for(unit)
is_whole(name, content)
# in a committed one
for size in 300, 2000, 0:
	was = dict(content)
	os.truncate(unit + "/__0_0.distcp", size)
	content["__0_0.distcp"] = content["__0_0.distcp"][:size].ljust(size, b"\0")
	assert tree(unit) == content
	assert tree(back + "/" + name) == was
	verify(back + "/" + name)
	commit(unit)
	is_whole(name, content)
# in one that is being changed
was = dict(content)
save(unit + "/late", b"late")
os.truncate(unit + "/__1_0.distcp", 10)
os.truncate(unit + "/__1_0.distcp", 11)
with open(unit + "/__3_0.distcp", "r+b") as file:
	file.truncate(12)
content.update({"late": b"late", "__1_0.distcp": content["__1_0.distcp"][:10] + b"\0",
	"__3_0.distcp": content["__3_0.distcp"][:12]})
assert tree(unit) == content
assert tree(back + "/" + name) == was
commit(unit)
is_whole(name, content)
assert failures() == [], failures()
END
umount_ckptfs
