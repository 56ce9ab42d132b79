#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that is killed in the middle of saves of checkpoints of many files leaves exactly those that were committed,
# whole, for the next mount; fsck finds nothing decided that was not done. (Many more such: tests/crash.)

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/crash/crash.bash"
. "$SRC/tests/crash/checkpoints.bash"

needs_fuse
needs python3

mount_again() {
	mount_ckptfs
}

mount_again
kill_rounds 4
umount_ckptfs
check_recovered
