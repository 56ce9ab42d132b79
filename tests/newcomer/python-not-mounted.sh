#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Nothing is mounted where a program saves: ckptfs.require, and each call under CKPTFS_REQUIRE, say what is there instead and
# what to do. In a mount they return.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
mkdir -p plain/run
export PYTHONPATH=$PYTHONPATH:$SRC/tests/newcomer

# Without the variable nothing is refused but require.
program <<'END'
from told import *
plain = os.environ["TEST_TMP"] + "/plain"
for path, where in (plain, plain + " lies in no mount of ckptfs: it is an ordinary directory on "), \
	(plain + "/run/x.pt", plain + "/run/x.pt lies in no mount of ckptfs: %s/run is an ordinary directory on " % plain), \
	(plain + "/none/deep/x.pt", plain + " is an ordinary directory on "):
	text = told(errno.ENOTTY, ckptfs.require, path)
	assert where in text and "ckptfs mount BACKING MOUNTPOINT" in text and "is not protected" in text, text
assert ckptfs.latest(plain) is None
with ckptfs.open(plain + "/a.pt") as file:
	file.write(b"x")
END

mount_ckptfs
program <<'END'
from told import *
mnt, plain = os.environ["MNT"], os.environ["TEST_TMP"] + "/plain"
for path in mnt, mnt + "/", mnt + "/x.pt", mnt + "/not/there/yet":
	assert ckptfs.require(path) is None
os.symlink(mnt, plain + "/link")
ckptfs.require(plain + "/link/x.pt")
# A path that was not meant: the mounts that there are.
assert mnt in told(errno.ENOTTY, ckptfs.require, plain).partition("; mounted now: ")[2].split(", ")
os.environ["CKPTFS_REQUIRE"] = "1"
for call in ckptfs.latest, lambda path: ckptfs.open(path + "/a.pt"), ckptfs.wait, ckptfs.commit, ckptfs.Session:
	assert "lies in no mount of ckptfs" in told(errno.ENOTTY, call, plain)
assert ckptfs.latest(mnt) is None
with ckptfs.open(mnt + "/a.pt") as file:
	file.write(b"x")
# One place is required, all others are as ever.
os.environ["CKPTFS_REQUIRE"] = mnt + "/"
assert ckptfs.latest(plain) == plain + "/a.pt"
os.environ["CKPTFS_REQUIRE"] = plain + "/run"
assert ckptfs.latest(plain) == plain + "/a.pt"
for path in plain + "/run", plain + "/../plain/run":
	told(errno.ENOTTY, ckptfs.latest, path)
for off in "", "0", "no", "Off", "FALSE":
	os.environ["CKPTFS_REQUIRE"] = off
	assert ckptfs.latest(plain + "/run") is None
# Neither yes nor no.
os.environ["CKPTFS_REQUIRE"] = "ckpt"
text = told(errno.EINVAL, ckptfs.latest, plain)
assert "CKPTFS_REQUIRE=ckpt is neither 1, 0 nor an absolute path" in text, text
# The library is required, too.
os.environ["CKPTFS_LIB"] = "/nowhere"
ckptfs._lib._loaded = None
assert "no libckptfs: /nowhere" in told(errno.ENOENT, ckptfs.require, mnt)
END
umount_ckptfs
program <<'END'
from told import *
mnt = os.environ["MNT"]
assert mnt + " lies in no mount of ckptfs: it is an ordinary directory on " in told(errno.ENOTTY, ckptfs.require, mnt)
END
