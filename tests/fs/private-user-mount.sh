#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mount that an ordinary user made is that user's alone: others, root included, cannot look into it.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

user_fuse 1001
name_user 1001
mkdir -m 755 "$TEST_TMP/back" "$TEST_TMP/mnt" "$TEST_TMP/userrun"
chown 1001:1001 "$TEST_TMP/back" "$TEST_TMP/mnt" "$TEST_TMP/userrun"
export CKPTFS_RUN_DIR=$TEST_TMP/userrun/run
expect_ok as_user 1001 "$CKPTFS" mount -o host_cache_size=64M "$TEST_TMP/back" "$TEST_TMP/mnt"
expect_ok as_user 1001 sh -c "echo mine >$TEST_TMP/mnt/file && cat $TEST_TMP/mnt/file"
expect_fail as_user 1002 ls "$TEST_TMP/mnt"
expect_fail as_user 1002 cat "$TEST_TMP/mnt/file"
expect_fail as_user 1002 cat "$TEST_TMP/mnt/.ckptfs/status.json"
expect_fail cat "$TEST_TMP/mnt/file"
line=$(grep " $TEST_TMP/mnt " /proc/mounts)
assert_contains "$line" nosuid
assert_contains "$line" nodev
assert_eq "$(stat -c %u "$TEST_TMP/back/file")" 1001
expect_ok as_user 1001 "$CKPTFS" umount "$TEST_TMP/mnt"
