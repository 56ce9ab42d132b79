#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# With every optional feature turned off the mount works, and status calls them off.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
CKPTFS_FEATURES_OFF=all mount_ckptfs
echo data >"$MNT/file"
mv "$MNT/file" "$MNT/other"
assert_eq "$(cat "$MNT/other")" data
assert_eq "$(status_of 'set(x["features"].values())')" "{'off'}"
expect_ok "$CKPTFS" status "$MNT"
assert_contains "$OUT" "passthrough:off"
run env CKPTFS_FEATURES_OFF=all "$CKPTFS" version
assert_contains "$OUT" "turned off"
umount_ckptfs

export CKPTFS_FEATURES_OFF=xattr,openat2
mount_ckptfs
assert_eq "$(status_of 'x["features"]["xattr"], x["features"]["openat2"], x["features"]["btime"] == "off"')" \
	"('off', 'off', False)"
umount_ckptfs
