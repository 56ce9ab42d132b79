#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that a job removes from its committed checkpoint is a change to that, made when the job is quiet; and a
# checkpoint that is removed while it is being changed does not come back.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *
import shutil

one, two = mnt + "/step-1", mnt + "/step-2"
first = make(one)
os.unlink(one + "/__1_0.distcp")
gone = first.pop("__1_0.distcp")
assert tree(one) == first
assert read(back + "/step-1/__1_0.distcp") == gone
wait(lambda: not os.path.exists(back + "/step-1/__1_0.distcp"))
is_whole("step-1", first)

save(one + "/late.txt", b"late")
shutil.rmtree(one)
assert names() == [], names()
second = make(two)
wait(lambda: not os.path.exists(back + "/step-1"))
is_whole("step-2", second)
assert names() == ["step-2"], names()
assert not failures(), failures()
END
umount_ckptfs
