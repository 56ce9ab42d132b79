#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The state of a checkpoint of many files is an extended attribute of its directory; no other directory has it. Its files have
# theirs, and none of them is committed before it is.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *

STATE, ERROR = "user.ckptfs.state", "user.ckptfs.error"

def attribute(path, name=STATE):
	return os.getxattr(path, name).decode()

one, two = mnt + "/step-1", mnt + "/step-2"
os.mkdir(mnt + "/plain")
save(mnt + "/plain/file", b"x")
begin(one)
os.mkdir(one + "/sub")
assert attribute(one) == "open"
save(one + "/sub/part", b"x")
wait(lambda: attribute(one + "/sub/part") == "durable")
end(one)
wait_for(one)
assert attribute(one) == attribute(one + "/sub/part") == "committed"
for path in mnt, mnt + "/plain", one + "/sub":
	fails(errno.ENODATA, os.getxattr, path, STATE)
fails(errno.ENODATA, os.getxattr, one, ERROR)

# While it is changed, as another generation.
save(one + "/late.txt", b"late")
assert attribute(one) == "open"
assert ckptfs("commit", one)[0] == 0
wait(lambda: attribute(one) == "committed")

# One that failed has no name, but who is in it is told.
begin(two)
fd = os.open(two, os.O_RDONLY)
fails(errno.ENODATA, os.getxattr, fd, ERROR)
save(two + "/part", b"x")
part = os.open(two + "/part", os.O_RDONLY)
wait(lambda: attribute(part) == "durable")
fails(errno.ENODATA, os.getxattr, part, ERROR)
assert ckptfs("commit", "--abandon", two)[0] == 0
for which in fd, part:
	assert attribute(which) == "failed" and "abandon" in attribute(which, ERROR), attribute(which, ERROR)

# It says nothing of copies, and is nobody's to set.
assert all(STATE not in os.listxattr(path) for path in (one, fd))
os.setxattr(one, STATE, b"open")
assert attribute(one) == "committed"
fails(errno.ENODATA, os.getxattr, back + "/step-1", STATE)
END
umount_ckptfs
# What another mount has committed.
mount_ckptfs
program <<'END'
from checkpoints import *

assert os.getxattr(mnt + "/step-1", "user.ckptfs.state") == b"committed"
END
umount_ckptfs
