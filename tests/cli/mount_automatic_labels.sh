#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Mounts of one host are called HOST, HOST-2, HOST-3, and a label is used again after its mount is gone.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
host=$(uname -n)
for i in 1 2 3; do
	mount_ckptfs "$TEST_TMP/back$i" "$TEST_TMP/mnt$i"
done
assert_eq "$(status_of 'x["node"]' "$TEST_TMP/mnt1")" "$host"
assert_eq "$(status_of 'x["node"]' "$TEST_TMP/mnt2")" "$host-2"
assert_eq "$(status_of 'x["node"]' "$TEST_TMP/mnt3")" "$host-3"
umount_ckptfs "$TEST_TMP/mnt2"
mount_ckptfs "$TEST_TMP/back2" "$TEST_TMP/mnt2"
assert_eq "$(status_of 'x["node"]' "$TEST_TMP/mnt2")" "$host-2" "used again after umount"
kill9_and_reaped "$(daemon_pid "$TEST_TMP/mnt1")" 10
mount_ckptfs "$TEST_TMP/back1" "$TEST_TMP/mnt1"
assert_eq "$(status_of 'x["node"]' "$TEST_TMP/mnt1")" "$host" "used again after kill -9"
for i in 1 2 3; do
	umount_ckptfs "$TEST_TMP/mnt$i"
done
assert_eq "$(find "$CKPTFS_RUN_DIR" -type f)" "" "label files left"
