#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where there is no /dev/fuse mount says so, and what to load.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to take /dev/fuse away in"
mkdir "$TEST_TMP/dev" "$TEST_TMP/mnt"
mount -t tmpfs -o mode=755 tmpfs "$TEST_TMP/dev"
mknod -m 666 "$TEST_TMP/dev/null" c 1 3
mount --move "$TEST_TMP/dev" /dev || skip "cannot put another /dev in place"
BACK=$TEST_TMP/back
mkdir "$BACK"
expect_ok "$CKPTFS" init "$BACK"
refused 1 "cannot use /dev/fuse: No such file or directory. Nothing was mounted" "$BACK" "$TEST_TMP/mnt"
assert_contains "$OUT" "modprobe fuse; in a container, pass the device in"
