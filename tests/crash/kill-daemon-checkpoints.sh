#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that is killed in the middle of saves of checkpoints of many files, new ones, overwritten ones and ones to
# which files come late, leaves exactly those that were committed, whole, for the next mount.
#
# heavy: check-crash
# timeout: 400

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/crash/crash.bash"
. "$SRC/tests/crash/checkpoints.bash"

needs_fuse
needs python3

mount_again() {
	mount_ckptfs
}

mount_again
kill_rounds 25
umount_ckptfs
check_recovered

# The same where two names cannot be exchanged.
export CKPTFS_FEATURES_OFF=rename_flags
EXCHANGES=
mount_again
kill_rounds 15
umount_ckptfs
check_recovered
