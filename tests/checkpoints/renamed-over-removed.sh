#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A committed checkpoint, and an ordinary directory, are renamed to the name of one that their job has removed, and which
# therefore is still on the backing: as any free name they get it.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *
import shutil

make(mnt + "/step-1", seed=1)
content = make(mnt + "/step-2", seed=2)
shutil.rmtree(mnt + "/step-1")
assert names() == ["step-2"] and os.path.exists(back + "/step-1"), "the removal should wait"
os.rename(mnt + "/step-2", mnt + "/step-1")
assert names() == ["step-1"], names()
is_whole("step-1", content)

os.mkdir(mnt + "/plain")
save(mnt + "/plain/file", b"content")
shutil.rmtree(mnt + "/step-1")
os.rename(mnt + "/plain", mnt + "/step-1")
assert tree(mnt + "/step-1") == tree(back + "/step-1") == {"file": b"content"}
END
