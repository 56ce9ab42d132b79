#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A comma or backslash in an option's value is written with a backslash before it.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir "$BACK" "$TEST_TMP/mnt"
refused 1 'option node=0-3,8\b is not valid' -o 'node=0-3\,8\\b,quiet_s=1' "$BACK" "$TEST_TMP/mnt"

echo '{"node": "n2"}' >"$TEST_TMP/a,b=c.json"
mount_ckptfs -o "config=$TEST_TMP/a\\,b=c.json"
assert_eq "$(status_of 'x["node"]')" n2
umount_ckptfs
