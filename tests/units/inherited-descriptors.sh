#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Children that inherit the descriptor of a file being saved, write nothing to it and fail are none of its business,
# though the kernel may name them as it named a writer that is gone.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
mount_ckptfs
head -c 1000000 /dev/urandom >"$TEST_TMP/part"
exec 5>"$MNT/x.pt"
for ((i = 0; i < 5; i++)); do
	cat "$TEST_TMP/part" >&5 || die "write $i"
	for ((j = 0; j < 20; j++)); do
		! grep -q x /dev/null || die "found in nothing"
	done
done
exec 5>&-
expect_ok "$CKPTFS" wait --timeout 30 "$MNT/x.pt"
for ((i = 0; i < 5; i++)); do
	cat "$TEST_TMP/part"
done >"$TEST_TMP/all"
expect_ok cmp "$TEST_TMP/all" "$BACK/x.pt"
umount_ckptfs
