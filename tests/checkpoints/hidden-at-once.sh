#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# As soon as a checkpoint is said to have failed, no program finds it any more: the next incarnation of its job does not
# write into the remains.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs
program <<'END'
from checkpoints import *

unit = mnt + "/step-1"

def writes():
	os.mkdir(unit)
	save(unit + "/__0_0.distcp", b"one")
	signal.pause()

for _ in range(5):
	writer = child(writes)
	wait(lambda: os.path.exists(unit + "/__0_0.distcp")) # which the kernel remembers
	os.kill(writer, signal.SIGKILL)
	assert reap(writer) == -signal.SIGKILL
	wait(lambda: not pending())
	assert not os.path.exists(unit)
	fails(errno.ENOENT, save, unit + "/x", b"")
assert reap(child(lambda: is_whole("step-1", make(unit)))) == 0
END
umount_ckptfs
