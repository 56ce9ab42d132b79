#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# POSIX ACLs of the backing decide: who is let in by an ACL only, who is kept out by one, what a default ACL gives to
# new files whatever the umask.
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
	{
		mkdir -m 700 only
		echo secret >only/file
		chmod 600 only/file
		setfacl -m u:1001:rwx only
		setfacl -m u:1001:rw only/file
		as_user 1001 sh -c 'cat only/file; echo more >>only/file; touch only/new; mkdir only/d' 2>&1
		as_user 1002 sh -c 'cat only/file; touch only/new2; ls only' 2>&1
		echo public >public
		chmod 666 public
		setfacl -m u:1001:--- public
		as_user 1001 sh -c 'cat public; echo x >>public' 2>&1
		as_user 1002 cat public
		mkdir -m 777 default
		setfacl -d -m u:1002:rwx,g::rwx,o::r default
		as_user 1001 sh -c 'umask 077; touch default/file; mkdir default/dir; cp public default/copy; mkdir default/dir/sub' 2>&1
		as_user 1002 sh -c 'echo by-acl >>default/file; touch default/dir/sub/x' 2>&1
		as_user 1001 setfacl -m g:1003:r default/file
		as_user 1002 setfacl -m g:1004:rwx default/file 2>&1
		as_user_groups 1005 1003 cat default/file 2>&1
		chmod g-w default/file
		as_user 1002 sh -c 'echo masked >>default/file' 2>&1
		setfacl -b only/file
		as_user 1001 cat only/file 2>&1
		find . -path ./.ckptfs -prune -o -mindepth 1 -print | sort | xargs getfacl -np
	} >"$TEST_TMP/log.${top##*/}" 2>&1
	cd /
done
diff "$TEST_TMP/log.plain" "$TEST_TMP/log.mnt" || die "plain (<) and mount (>) differ"
assert_contains "$(cat "$TEST_TMP/log.mnt")" "user:1002:rwx"
umount_ckptfs
