#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mount is nosuid and nodev, whatever is asked for: suid programs of the backing run as the caller, device nodes open
# nothing.
#
# needs: root

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs setpriv
mkdir "$TEST_TMP/back"
cp /usr/bin/id "$TEST_TMP/back/suid"
chmod 6755 "$TEST_TMP/back/suid"
mknod "$TEST_TMP/back/zero" c 1 5
chmod 666 "$TEST_TMP/back/zero"
run "$CKPTFS" mount -o suid,dev "$TEST_TMP/back" "$TEST_TMP/none"
[ "$RC" = 0 ] && umount_ckptfs "$TEST_TMP/none"
for options in "" suid dev suid,dev,exec; do
	mkdir -p "$TEST_TMP/mnt"
	run "$CKPTFS" mount ${options:+-o "$options"} "$TEST_TMP/back" "$TEST_TMP/mnt"
	[ "$RC" = 0 ] || continue # refusing the option is fine
	line=$(grep " $TEST_TMP/mnt " /proc/mounts)
	assert_contains "$line" nosuid "mounted with '$options':"
	assert_contains "$line" nodev "mounted with '$options':"
	assert_eq "$(as_user 1001 "$TEST_TMP/mnt/suid" -u)" 1001 "suid program"
	expect_fail as_user 1001 head -c1 "$TEST_TMP/mnt/zero"
	umount_ckptfs "$TEST_TMP/mnt"
done
