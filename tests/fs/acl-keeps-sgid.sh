#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An ACL set by the owner leaves the set-group-ID bit, where the group is one of the owner's supplementary ones; by an
# owner who is not of the group it clears the bit. As on a plain directory.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv setfacl getfacl
mount_ckptfs
mkdir "$TEST_TMP/plain"
setfacl -m u:1001:rwx "$TEST_TMP/plain" || skip "no ACLs on this filesystem"
setfacl -b "$TEST_TMP/plain"
status_is "s['features']['xattr'] == 'yes'" || skip "the mount has no xattrs here"
for top in "$TEST_TMP/plain" "$MNT"; do
	cd "$top" || die "no $top"
	mkdir dir strange
	chown 1001:1003 dir strange
	chmod 2775 dir strange
	{
		as_user_groups 1001 1003 setfacl -m u:1002:rwx dir
		stat -c '%n %a' dir
		as_user_groups 1001 1004,1003 setfacl -m u:1004:r dir
		stat -c '%n %a' dir
		as_user 1001 setfacl -m u:1002:rwx strange
		stat -c '%n %a' strange
		getfacl -np dir strange
	} >"$TEST_TMP/log.${top##*/}" 2>&1
	cd /
done
diff "$TEST_TMP/log.plain" "$TEST_TMP/log.mnt" || die "plain (<) and mount (>) differ"
assert_contains "$(cat "$TEST_TMP/log.mnt")" "dir 2775"
umount_ckptfs
