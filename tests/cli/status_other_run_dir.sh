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
# Not even where a dead daemon has left a socket of that name.
mkdir "$TEST_TMP/elsewhere"
for socket in "$CKPTFS_RUN_DIR"/*; do
	[ -S "$socket" ] || continue
	python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$TEST_TMP/elsewhere/${socket##*/}"
	left=yes
done
assert_eq "${left-}" yes "a socket in $CKPTFS_RUN_DIR"
expect_fail env CKPTFS_RUN_DIR="$TEST_TMP/elsewhere" timeout 5 "$CKPTFS" status "$MNT"
assert_contains "$OUT" "Set CKPTFS_RUN_DIR as it was set for the mount"
umount_ckptfs
