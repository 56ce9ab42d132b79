#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mapping of one file of the mount is the buffer for writing and reading another: no hang, right bytes.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs
expect_ok timeout -s KILL 45 "$BUILD/tests/helpers/fs_hangs" buffers "$MNT" 100
umount_ckptfs
