#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount refuses a --timeout that is no number of seconds, and leaves the mount alone.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
for value in "" x 1x -1 1.5 99999999999999999999 " "; do
	run "$CKPTFS" umount --timeout "$value" "$MNT"
	assert_eq "$RC" 2 "--timeout '$value': $OUT"
	assert_contains "$OUT" "--timeout wants whole seconds"
done
is_mounted || die "not mounted any more"
expect_ok "$CKPTFS" umount --timeout 30 "$MNT"
