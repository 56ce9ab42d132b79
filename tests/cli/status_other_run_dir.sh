#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A verb that looks in another run directory than the mount's does not take a live daemon for dead.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
expect_fail env CKPTFS_RUN_DIR="$TEST_TMP/elsewhere" timeout 2 "$CKPTFS" status "$MNT"
assert_contains "$OUT" "Set CKPTFS_RUN_DIR as it was set for the mount"
expect_fail env CKPTFS_RUN_DIR="$TEST_TMP/elsewhere" timeout 5 "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "Set CKPTFS_RUN_DIR as it was set for the mount"
umount_ckptfs
