#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# Ten thousand tensors, and threads that register, write and unregister at once, through libckptfs.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o host_cache_size=16M
expect_ok "${BUILD:?}/tests/helpers/tensors" "${MNT:?}" 10000 3000 1
assert_eq "$OUT" 10000 captures
rm "$MNT/t0.pt"
expect_ok "$BUILD/tests/helpers/tensors" "$MNT" 10000 3000 4
assert_eq "$OUT" 10000 captures
umount_ckptfs
expect_ok "${CKPTFS:?}" verify "${BACK:?}"
for i in 0 1 2 3; do
	assert_eq "$(stat -c %s "$BACK/t$i.pt")" $((2500 * 3000 + 357 * 21 + 0)) "size of t$i.pt"
done
