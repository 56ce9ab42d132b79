#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount says why a backing cannot be opened: links in a circle, a directory closed to the user.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/mnt"
ln -s circle "$TEST_TMP/circle"
refused 1 "the backing directory $TEST_TMP/circle cannot be opened: Too many levels of symbolic links" \
	"$TEST_TMP/circle" "$TEST_TMP/mnt"

[ "$(id -u)" = 0 ] || exit 0
user_setup 1001
chown 0:0 "$BACK"
chmod 700 "$BACK"
AS=(as_user 1001)
refused 1 "the backing directory $BACK cannot be opened: Permission denied" "$BACK" "$MNT"
