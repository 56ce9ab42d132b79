#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# init says why it cannot: a directory that is missing, a file, nested, in a mount, or closed to the user.

. "${SRC:?}/tests/cli/verbs.sh"

# refuses PHRASE DIR: exit status 1 and that said.
refuses() {
	run "$CKPTFS" init "$2"
	assert_eq "$RC" 1 "init $2: $OUT"
	assert_contains "$OUT" "$1"
}

cd "$TEST_TMP" || die "cannot enter"
mkdir -p outer/a/b odd
echo data >file
refuses "the backing directory none does not exist" none
refuses "the backing file is not a directory" file
expect_ok "$CKPTFS" init outer
refuses "outer/a/b lies inside $TEST_TMP/outer, which is the backing" outer/a/b
refuses "outer/.ckptfs lies inside $TEST_TMP/outer, which is the backing" outer/.ckptfs
[ ! -e outer/a/b/.ckptfs ] || die "made in a nested directory"
# Somebody's file has the name.
echo mine >odd/.ckptfs
refuses "cannot make $TEST_TMP/odd/.ckptfs: " odd
assert_eq "$(cat odd/.ckptfs)" mine
# A link must not lead out of the backing.
mkdir away
rm odd/.ckptfs
ln -s ../away odd/.ckptfs
refuses "$TEST_TMP/odd/.ckptfs is a symbolic link" odd
assert_eq "$(ls -A away)" "" "made outside of the backing"

needs_fuse
mount_ckptfs
mkdir "$MNT/dir"
refuses "$MNT/dir lies inside the ckptfs mount $MNT" "$MNT/dir"
refuses "$MNT lies inside the ckptfs mount $MNT" "$MNT"
umount_ckptfs
