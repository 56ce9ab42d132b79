#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount refuses a mount point inside the backing, where the filesystem would contain itself.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back
mkdir -p "$BACK/a/b" "$TEST_TMP/out"
ln -s "$BACK/a" "$TEST_TMP/link"
for point in "$BACK/a/b" "$BACK/a" "$TEST_TMP/link" "$TEST_TMP/out/../back/a"; do
	refused 1 "lies inside the backing $BACK: the filesystem would contain itself" "$BACK" "$point"
done
[ ! -e "$BACK/.ckptfs" ] || die "the backing was changed"
