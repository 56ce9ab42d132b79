#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# mount.ckptfs takes the flags that mount(8) gives its helpers: -f only pretends, -v says what is run, -N is refused.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
helper=$SRC/mount-scripts/mount.ckptfs
BACK="$TEST_TMP/the back" MNT="$TEST_TMP/the mnt"
mkdir "$BACK" "$MNT"
expect_ok sh "$helper" "$BACK" "$MNT" -f -v -o ro
assert_eq "$OUT" "$CKPTFS mount -o ro $BACK $MNT"
assert_eq "$(ckptfs_mounts)" "" "mounts after -f"
expect_ok sh "$helper" "$BACK" "$MNT" -s -n -v -t ckptfs -o rw -o node=n3
assert_contains "$OUT" "$CKPTFS mount -o rw,node=n3 $BACK $MNT"
assert_eq "$(status_of 'x["node"]')" n3
umount_ckptfs
expect_fail sh "$helper" "$BACK" "$MNT" -N 1
assert_contains "$OUT" "-N is not supported"
for option in --help -h; do
	expect_ok sh "$helper" "$option"
	assert_contains "$OUT" "usage: mount.ckptfs BACKING MOUNTPOINT"
	expect_ok sh "$SRC/mount-scripts/umount.ckptfs" "$option"
	assert_contains "$OUT" "usage: umount.fuse.ckptfs MOUNTPOINT"
done
for arguments in "" "x" "-o ro" "a b -Z"; do
	# shellcheck disable=SC2086 # words
	expect_fail sh "$helper" $arguments
	assert_contains "$OUT" "usage: mount.ckptfs BACKING MOUNTPOINT"
done

# Without $CKPTFS it is looked for in PATH.
expect_ok env -u CKPTFS "PATH=$BUILD/bin:$PATH" sh "$helper" "$BACK" "$MNT"
umount_ckptfs
run env -u CKPTFS PATH=/nonexistent "$(command -v sh)" "$helper" "$BACK" "$MNT" -f
[ "$RC" = 0 ] || assert_contains "$OUT" "the command ckptfs is not in PATH, /usr/local/bin, /usr/bin or "
