#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program whose timer fires a thousand times a second sees no EINTR from thousands of file calls, nor from one that
# waits a moment for a backing that is frozen and soon thawed.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
loop_fs ext4 64 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
expect_ok timeout 50 "$BUILD/tests/helpers/fs_signals" "$MNT" 3000

"$BUILD/tests/helpers/fs_signals" "$MNT" 100000000 >"$TEST_TMP/out" 2>&1 &
pid=$!
wait_until 10 test -e "$MNT/signals.started"
for _ in 1 2 3; do
	fsfreeze -f "$BACK" && fsfreeze -u "$BACK"
done
kill -TERM "$pid"
wait "$pid"
assert_eq "$?" 0 "$(cat "$TEST_TMP/out")"
umount_ckptfs
