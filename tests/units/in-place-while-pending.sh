#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What somebody who may not make files beside it is still writing in place to a file that was to be published is not
# published as a whole save, with a digest that vouches for it.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
status_is "s['features']['odirect'] == 'yes'" || skip "no O_DIRECT"
program <<'END'
from units import *

os.mkdir(mnt + "/closed", 0o755)
x, on_backing = mnt + "/closed/x.pt", back + "/closed/x.pt"
os.umask(0)
save(x, b"old", mode=0o666)
published()
(written, said), (told, tell) = os.pipe(), os.pipe()

def other():
	os.setgroups([])
	os.setgid(1200)
	os.setuid(1200)
	fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
	os.write(fd, data(2, MB))
	os.write(said, b"x")
	os.read(told, 1)
	os.write(fd, data(3, MB))
	os.close(fd)

with flush_held():
	save(x, data(1, 3 * MB), mode=0o666)
	assert pending() == {"closed/x.pt": "sealed"}
	p = child(other)
	time.sleep(1)
os.read(written, 1)
published()
found = ckptfs("verify", on_backing) # the other one is in the middle of it
os.write(tell, b"x")
assert reap(p) == 0
assert found[0] == 1 and "no record" in found[1], found
assert read(x) == data(2, MB) + data(3, MB)
END
umount_ckptfs
