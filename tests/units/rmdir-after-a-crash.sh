#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a killed daemon left in a directory does not keep it from being removed.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
mkdir "$MNT/step-1"
exec 5>"$MNT/step-1/x.pt"
echo x >&5
pid=$(daemon_pid)
kill -KILL "$pid"
exec 5>&-
run "$CKPTFS" umount "$MNT"
mount_ckptfs "$TEST_TMP/disk"
ls -A "$BACK/step-1"
expect_ok rm -rf "$MNT/step-1"
umount_ckptfs
