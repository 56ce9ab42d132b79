#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file of the mount can be a loop device with a filesystem of its own.
#
# needs: root

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs losetup mkfs.ext4
mount_ckptfs
truncate -s 32M "$MNT/image"
device=$(losetup -f --show "$MNT/image") || skip "no loop device"
_loops+=("$device")
expect_ok mkfs.ext4 -q -F "$device"
mkdir "$TEST_TMP/inner"
expect_ok mount "$device" "$TEST_TMP/inner"
head -c 5000000 /dev/urandom >"$TEST_TMP/data"
expect_ok cp "$TEST_TMP/data" "$TEST_TMP/inner/data"
expect_ok umount "$TEST_TMP/inner"
expect_ok mount "$device" "$TEST_TMP/inner"
expect_ok cmp "$TEST_TMP/data" "$TEST_TMP/inner/data"
expect_ok umount "$TEST_TMP/inner"
expect_ok losetup -d "$device"
_loops=() # another test may have that device now
umount_ckptfs
