#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Threads that map, change and unmap files while others open, write and rename: nothing hangs, nothing is lost.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
# Where the kernel cannot map what is open for direct writing, nobody else writes to the mapped files.
status_is "s['features']['direct_mmap'] == 'yes'" || export NO_WRITERS=1
expect_ok timeout -s KILL 45 "$BUILD/tests/helpers/fs_hangs" faults "$MNT" 150
umount_ckptfs
