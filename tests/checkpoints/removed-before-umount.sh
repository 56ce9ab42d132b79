#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a person has removed of a committed checkpoint stays removed, also if the mount ends right after.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *

for name in "step-1", "step-2":
	make(mnt + "/" + name)
END
setsid -w rm "$MNT/step-1/__1_0.distcp"
umount_ckptfs
[ ! -e "$BACK/step-1/__1_0.distcp" ] || die "a file that was removed is there"
expect_ok "$CKPTFS" verify "$BACK/step-1"
mount_ckptfs -o quiet_s=3600
setsid -w rm "$MNT/step-1/__0_0.distcp"
setsid -w rm "$MNT/step-2/.metadata" "$MNT/step-2/"*
umount_ckptfs
[ ! -e "$BACK/step-1/__0_0.distcp" ] || die "one of those that were removed is there"
expect_ok "$CKPTFS" verify "$BACK/step-1"
assert_eq "$(ls -A "$BACK/step-2")" "" "of a checkpoint all of whose files were removed"
