#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount of a bind mount of the mount takes that one away; the mount itself, named, goes with its daemon.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
daemon=$(daemon_pid)
mkdir "$TEST_TMP/bind"
expect_ok mount --bind "$MNT" "$TEST_TMP/bind"
expect_ok timeout 20 "$CKPTFS" umount --timeout 5 "$TEST_TMP/bind"
! is_mounted "$TEST_TMP/bind" || die "the bind mount is still there"
is_mounted || die "the mount has gone instead"
assert_eq "$(daemon_pid)" "$daemon" "the daemon"
umount_ckptfs

# A bind mount that is left keeps the daemon, which is not the backing's fault.
mount_ckptfs
expect_ok mount --bind "$MNT" "$TEST_TMP/bind"
run timeout 20 "$CKPTFS" umount --timeout 1 "$MNT"
[[ $OUT != *"it waits for the backing"* ]] || die "the wrong reason: $OUT"
