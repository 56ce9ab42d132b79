#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# needs: root
# A user mounts with coord=etcd what is his own; on a backing of others only when it was written down there before.

. "${SRC:?}/tests/cli/verbs.sh"
. "$SRC/tests/cluster/etcd.bash"

user_fuse 1000
name_user 1000
start_etcd
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
mkdir -m 700 "$TEST_TMP/run.1000"
chown 1000:1000 "$MNT" "$TEST_TMP/run.1000"
how=host_cache_size=16M,coord=etcd:$ETCD_URL

expect_fail as_user 1000 env CKPTFS_RUN_DIR="$TEST_TMP/run.1000" "$CKPTFS" mount -o "$how" "$BACK" "$MNT"
assert_contains "$OUT" "needs $BACK/.ckptfs, which is not there and could not be made"
expect_ok "$CKPTFS" init "$BACK"
expect_fail as_user 1000 env CKPTFS_RUN_DIR="$TEST_TMP/run.1000" "$CKPTFS" mount -o "$how" "$BACK" "$MNT"
assert_contains "$OUT" "cannot make $BACK/.ckptfs/coord.json"
expect_ok "$CKPTFS" mount -o "$how" "$BACK" "$MNT"
umount_ckptfs
expect_ok as_user 1000 env CKPTFS_RUN_DIR="$TEST_TMP/run.1000" "$CKPTFS" mount -o "$how" "$BACK" "$MNT"
expect_ok as_user 1000 env CKPTFS_RUN_DIR="$TEST_TMP/run.1000" "$CKPTFS" umount "$MNT"

mkdir "$TEST_TMP/own"
chown 1000:1000 "$TEST_TMP/own"
expect_ok as_user 1000 env CKPTFS_RUN_DIR="$TEST_TMP/run.1000" "$CKPTFS" mount -o "$how" "$TEST_TMP/own" "$MNT"
expect_ok as_user 1000 env CKPTFS_RUN_DIR="$TEST_TMP/run.1000" "$CKPTFS" umount "$MNT"
assert_contains "$(cat "$TEST_TMP/own/.ckptfs/coord.json")" '"coord": "etcd"'
