#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Programs that fork and exec while they have written files open that close at exec: nothing hangs.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs
expect_ok timeout -s KILL 45 "$BUILD/tests/helpers/fs_hangs" exec "$MNT" 100
umount_ckptfs
