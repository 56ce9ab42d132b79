#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The directory that a checkpoint is in is renamed, while that is written, by the old name, too, and when its end was seen:
# it is committed where its directory is then.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *

os.makedirs(mnt + "/run1/deep")
content = begin(mnt + "/run1/deep/step-1")
late = os.open(mnt + "/run1/deep/step-1/late", os.O_CREAT | os.O_WRONLY)
os.rename(mnt + "/run1", mnt + "/run2")
os.write(late, b"by the old name")
os.close(late)
content["late"] = b"by the old name"
end(mnt + "/run2/deep/step-1", content)
wait_for(mnt + "/run2/deep/step-1")
is_whole("run2/deep/step-1", content)
assert json.loads(read(back + "/run2/deep/step-1/.ckptfs-commit.json"))["unit"] == "run2/deep/step-1"
assert names() == ["run2"], names()

for i in range(5):
	os.makedirs(mnt + "/a%d/deep" % i)
	content = begin(mnt + "/a%d/deep/step-1" % i, size=300000)
	end(mnt + "/a%d/deep/step-1" % i, content)
	os.rename(mnt + "/a%d" % i, mnt + "/b%d" % i)
	wait_for(mnt + "/b%d/deep/step-1" % i)
	is_whole("b%d/deep/step-1" % i, content)
	assert not os.path.exists(back + "/a%d" % i)
	assert not staging(back + "/b%d/deep" % i)
assert not failures(), failures()
END
umount_ckptfs
