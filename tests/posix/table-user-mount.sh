#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-long
# On a mount that an ordinary user has made, every call of that user gives what it gives on a plain directory.
#
# timeout: 120
# needs: root

. "${SRC:?}/tests/lib.sh"

USER_ID=1001

# fusermount3 refuses a user without a name.
name_user() {
	getent passwd "$1" >/dev/null && return
	[ "$TEST_PRIVATE" = 1 ] || skip "user $1 has no name, which fusermount3 needs"
	{ cat /etc/passwd && echo "tester:x:$1:$1::/:/bin/false"; } >"$TEST_TMP/.passwd"
	mount --bind "$TEST_TMP/.passwd" /etc/passwd || skip "cannot give user $1 a name"
}

user_fuse "$USER_ID"
name_user "$USER_ID"
for dir in back mnt plain run; do
	mkdir -p "$TEST_TMP/$dir"
	chown "$USER_ID:$USER_ID" "$TEST_TMP/$dir"
done
cd "$TEST_TMP" || die "cannot enter $TEST_TMP"
expect_ok as_user "$USER_ID" env CKPTFS_RUN_DIR="$TEST_TMP/run" "$CKPTFS" mount -o host_cache_size=64M "$TEST_TMP/back" "$TEST_TMP/mnt"
expect_ok as_user "$USER_ID" "$BUILD/tests/posix/posixcmp" "$TEST_TMP/mnt" "$TEST_TMP/plain"
expect_ok as_user "$USER_ID" env CKPTFS_RUN_DIR="$TEST_TMP/run" "$CKPTFS" umount "$TEST_TMP/mnt"
