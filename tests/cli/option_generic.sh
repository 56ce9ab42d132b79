#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Options that fstab, mount(8) and systemd pass to every filesystem are accepted, and empty ones.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs -o defaults,rw,noauto,user,nofail,_netdev,nodev,nosuid,exec,noatime,x-systemd.automount,x-a=b,,comment=c,
assert_eq "$OUT" "" "output"
echo data >"$MNT/file"
assert_eq "$(cat "$BACK/file")" data
umount_ckptfs

# Whatever is asked for, set-user-id programs and devices are not honoured.
mount_ckptfs -o suid,dev
flags=$(findmnt -rn -o OPTIONS "$MNT")
assert_contains ",$flags," ,nosuid,
assert_contains ",$flags," ,nodev,
assert_contains ",$flags," ,default_permissions,
umount_ckptfs
