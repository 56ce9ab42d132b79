#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A directory in which nothing is left but hidden files of saves that ended can be removed.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 160 "$TEST_TMP/disk"
mount_ckptfs -o flush_depth=1 "$TEST_TMP/disk"
program <<'END'
from units import *
wrong = []
def remove(what, d):
	for name in os.listdir(d):
		os.unlink(d + "/" + name)
	try:
		os.rmdir(d)
	except OSError as e:
		wrong.append((what, e.strerror, os.listdir(d), staging(back + d[len(mnt):])))

# An older one of the name is open, the newer is published.
d = mnt + "/overtaken"
os.mkdir(d)
fd = os.open(d + "/x.pt", os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, b"x")
with flush_held():
	save(d + "/y.pt", data(1, MB))
	os.rename(d + "/y.pt", d + "/x.pt")
ckptfs("wait", "--timeout", "10", d + "/x.pt")
wait(lambda: os.path.exists(back + "/overtaken/x.pt"))
remove("overtaken", d)
os.close(fd)

# A save that was in conflict with what came there on the backing.
d = mnt + "/conflict"
os.mkdir(d)
fd = os.open(d + "/x.pt", os.O_CREAT | os.O_WRONLY, 0o644)
os.write(fd, b"x")
with open(back + "/conflict/x.pt", "wb") as f:
	f.write(b"another")
os.close(fd)
wait(lambda: failures())
remove("conflict", d)

assert not wrong, wrong
END
umount_ckptfs
