#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A checkpoint that is renamed to the name of one that is being committed, or a directory that is, gets what any
# directory gets there: that one is not empty.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600,flush_bw=1M
program <<'END'
from checkpoints import *

one, two, three = (mnt + "/step-%d" % i for i in (1, 2, 3))
first = begin(one, size=MB // 2)
second = begin(two, size=MB // 2)
third = begin(three)
end(one, first) # which takes a while
fails(errno.ENOTEMPTY, os.rename, three, one)
os.mkdir(mnt + "/empty")
end(two, second)
fails(errno.ENOTEMPTY, os.rename, mnt + "/empty", two)
end(three, third)
wait_for(three)
is_whole("step-1", first)
is_whole("step-2", second)
is_whole("step-3", third)
END
umount_ckptfs
