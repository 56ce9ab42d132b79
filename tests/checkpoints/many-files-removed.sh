#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-long
# A job removes a committed checkpoint of very many files: each costs the same, however many were removed before it.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *
import shutil

FILES = 20000
one, two = mnt + "/step-1", mnt + "/step-2"
begin(one)
for i in range(FILES):
	os.close(os.open(one + "/%d" % i, os.O_CREAT | os.O_WRONLY))
end(one)
wait_for(one)
content = begin(two)
for i in range(FILES):
	os.unlink(one + "/%d" % i)
assert len(os.listdir(one)) == 3 and len(os.listdir(back + "/step-1")) > FILES
shutil.rmtree(one)
assert names() == ["step-2"], names()
assert os.path.exists(back + "/step-1/%d" % (FILES - 1))
end(two, content)
wait(lambda: not os.path.exists(back + "/step-1"))
is_whole("step-2", content)
END
umount_ckptfs
