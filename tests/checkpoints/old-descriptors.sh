#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A process that was forked while a file of a checkpoint was open for writing, and keeps the descriptor, holds up no commit
# (a data loader's worker); a committed file that is changed through a mapping is changed as a whole, when that has ended.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *

unit = mnt + "/step-1"
content = begin(unit, size=8192)
more = os.open(unit + "/more", os.O_CREAT | os.O_WRONLY)
os.write(more, b"more")
worker = child(signal.pause)
os.close(more)
content["more"] = b"more"
end(unit, content)
wait_for(unit)
is_whole("step-1", content)
os.kill(worker, signal.SIGKILL)
assert reap(worker) == -signal.SIGKILL
is_whole("step-1", content)

fd = os.open(unit + "/__0_0.distcp", os.O_RDWR)
mapped = mmap.mmap(fd, 8192)
os.close(fd)
old = tree(back + "/step-1")
mapped[0:3] = b"xyz"
assert tree(back + "/step-1") == old == content
verify(back + "/step-1")
mapped.close()
wait_for(unit)
content["__0_0.distcp"] = b"xyz" + content["__0_0.distcp"][3:]
is_whole("step-1", content)
assert not failures(), failures()
END
umount_ckptfs
