#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `mount -t ckptfs` mounts through mount.ckptfs and passes the options on; `umount` ends the daemon in good order.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

install_helper
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
expect_ok mount -t ckptfs "$BACK" "$MNT"
echo data >"$MNT/file"
assert_eq "$(cat "$BACK/file")" data
expect_ok umount "$MNT"
wait_until 10 no_daemons_but
wait_until 10 run_dir_is_empty

expect_ok mount -t ckptfs -o ro,noatime,node=n7,lease_s=5 "$BACK" "$MNT"
assert_eq "$OUT" ""
assert_eq "$(status_of 'x["node"], x["read_only"]')" "('n7', True)"
expect_ok umount "$MNT"
wait_until 10 no_daemons_but

run mount -t ckptfs -o bogus=1 "$BACK" "$MNT"
assert_eq "$RC" 32 "mount(8)'s status for a failed mount: $OUT"
assert_contains "$OUT" "unknown option 'bogus'"
run mount -t ckptfs "$TEST_TMP/none" "$MNT"
assert_eq "$RC" 32 "$OUT"
assert_contains "$OUT" "the backing directory $TEST_TMP/none does not exist"
assert_eq "$(ckptfs_mounts)" "" "mounts left"
