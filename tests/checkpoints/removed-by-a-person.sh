#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A person's rm -r is done at once, also of a checkpoint to which he has added something just before.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *

make(mnt + "/step-1")
subprocess.run(["setsid", "-w", "sh", "-c", 'echo x >"$1/notes" && rm -r "$1"', "-", mnt + "/step-1"], check=True)
assert names() == []
wait(lambda: names(back) == [".ckptfs"])
assert failures() == []
END
umount_ckptfs
