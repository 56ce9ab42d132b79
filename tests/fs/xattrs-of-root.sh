#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# trusted.* attributes are root's: users do not see them, cannot read, set or remove them; user.* works for who may
# write the file; security.capability goes when the file is written.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv setfattr getfattr
mount_ckptfs
status_is "s['features']['xattr'] == 'yes'" || skip "the mount has no xattrs here"
mkdir "$TEST_TMP/plain"
for top in "$TEST_TMP/plain" "$MNT"; do
	cd "$top" || die "no $top"
	{
		touch file
		chown 1001:1001 file
		setfattr -n trusted.secret -v s file
		setfattr -n user.note -v n file
		getfattr -d -m - file
		as_user 1001 getfattr -d -m - file
		as_user 1001 getfattr -n trusted.secret file
		as_user 1001 setfattr -n trusted.mine -v m file
		as_user 1001 setfattr -x trusted.secret file
		as_user 1001 setfattr -n user.own -v o file
		as_user 1002 setfattr -n user.foreign -v f file
		as_user 1002 getfattr -d -m - file
		chmod 600 file
		as_user 1002 getfattr -d -m - file
		setfattr -n security.capability -v 0x0100000202000000000000000000000000000000 file
		getfattr -n security.capability -e hex file
		echo changed >>file
		getfattr -d -m - file
	} >"$TEST_TMP/log.${top##*/}" 2>&1
	cd /
done
diff "$TEST_TMP/log.plain" "$TEST_TMP/log.mnt" || die "plain (<) and mount (>) differ"
umount_ckptfs
