#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Without CKPTFS_RUN_DIR root's sockets are in /run/ckptfs, a user's in XDG_RUNTIME_DIR, and both find the other's.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to replace /run in"
user_setup 1001
unset CKPTFS_RUN_DIR
export -n XDG_RUNTIME_DIR
mount -t tmpfs -o mode=755 tmpfs /run || skip "cannot replace /run"
mkdir -p /run/user/1001
chown 1001:1001 /run/user/1001
chmod 700 /run/user/1001
expect_ok as_user 1001 env XDG_RUNTIME_DIR=/run/user/1001 "$CKPTFS" mount -o host_cache_size=64M "$BACK" "$MNT"
[ -S "$(echo /run/user/1001/ckptfs/*.sock)" ] || die "no socket: $(find /run)"
# Also without the variable, and by root.
expect_ok as_user 1001 "$CKPTFS" status "$MNT"
expect_ok "$CKPTFS" status "$MNT"
user_mnt=$MNT

mount_ckptfs "$TEST_TMP/roots" "$TEST_TMP/roots_mnt"
[ -S "$(echo /run/ckptfs/*.sock)" ] || die "no socket: $(find /run)"
assert_eq "$(stat -c '%a %u' /run/ckptfs)" "755 0"
expect_ok as_user 1001 "$CKPTFS" status "$MNT"
umount_ckptfs
umount_ckptfs "$user_mnt"
assert_eq "$(find /run -type s -o -name '*.lock')" "" "left in /run"
