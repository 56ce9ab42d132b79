#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mapping of a file is the buffer for writing and reading that file itself: no hang, right bytes.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs
expect_ok timeout -s KILL 45 "$BUILD/tests/helpers/fs_hangs" self "$MNT" 100
umount_ckptfs
