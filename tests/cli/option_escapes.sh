#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A comma or backslash in an option's value is written with a backslash before it.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs -o 'cpus=0-3\,8\\b,node=n1'
config=$(cat "$MNT/.ckptfs/config.json")
assert_eq "$(value 'x["cpus"]["value"]' "$config")" '0-3,8\b'
assert_eq "$(value 'x["node"]["value"]' "$config")" n1
umount_ckptfs

echo '{"node": "n2"}' >"$TEST_TMP/a,b=c.json"
mount_ckptfs -o "config=$TEST_TMP/a\\,b=c.json"
assert_eq "$(status_of 'x["node"]')" n2
umount_ckptfs
