#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount trusts no run directory that others could write, or that is none, and says what to do.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir "$BACK" "$TEST_TMP/mnt"

# unusable DIR WHY: mount refuses to use DIR.
unusable() {
	CKPTFS_RUN_DIR=$1
	refused 1 "the run directory $1 cannot be used: $2" "$BACK" "$TEST_TMP/mnt"
	assert_contains "$OUT" "set CKPTFS_RUN_DIR to a directory that only you can write"
}

not_private="it is not a directory that only its owner, you, may write"
mkdir -m 777 "$TEST_TMP/open"
chmod 777 "$TEST_TMP/open"
unusable "$TEST_TMP/open" "$not_private"
mkdir "$TEST_TMP/group"
chmod 770 "$TEST_TMP/group"
unusable "$TEST_TMP/group" "$not_private"
echo data >"$TEST_TMP/file"
unusable "$TEST_TMP/file" "$not_private"
mkdir "$TEST_TMP/real"
ln -s real "$TEST_TMP/link"
unusable "$TEST_TMP/link" "$not_private"
unusable "$TEST_TMP/missing/dir" "No such file or directory"
long=$TEST_TMP/$(printf 'r%.0s' {1..120})
unusable "$long" "its path is too long for a unix socket"
if [ "$(id -u)" = 0 ]; then
	mkdir "$TEST_TMP/theirs"
	chown 1001 "$TEST_TMP/theirs"
	unusable "$TEST_TMP/theirs" "$not_private"
fi
