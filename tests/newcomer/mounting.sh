#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What newcomers do wrong when they mount and unmount: each mistake is refused, or done right, by a message that names the
# thing and gives the command to run next.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
cd "$TEST_TMP" || die "cannot enter"
BACK=$TEST_TMP/pfs/ckpt MNT=$TEST_TMP/ckpt

# Neither directory is there: both are told at once, with a command that makes them.
refused 1 "neither the backing directory $BACK nor the mount point $MNT exists" "$BACK" "$MNT"
assert_contains "$OUT" "mkdir -p $BACK $MNT"
mkdir -p "$BACK"
refused 1 "the mount point $MNT does not exist" "$BACK" "$MNT"
assert_contains "$OUT" "mkdir -p $MNT"
mkdir "$MNT"
refused 1 "the backing directory $TEST_TMP/pfs/chkpt does not exist" "$TEST_TMP/pfs/chkpt" "$MNT"
assert_contains "$OUT" "mkdir -p $TEST_TMP/pfs/chkpt"

# The mount point inside the backing.
mkdir "$BACK/inner"
refused 1 "the mount point $BACK/inner lies inside the backing $BACK" "$BACK" "$BACK/inner"
assert_contains "$OUT" "choose a mount point outside"
rmdir "$BACK/inner"

# Arguments swapped: what lies in the directory would be hidden.
mkdir "$TEST_TMP/precious"
touch "$TEST_TMP/precious/model.pt" "$TEST_TMP/precious/optimizer.pt"
refused 1 "the mount point $TEST_TMP/precious is not empty: the mount would hide '" "$MNT" "$TEST_TMP/precious"
assert_contains "$OUT" "did you swap BACKING and MOUNTPOINT? Then: ckptfs mount $TEST_TMP/precious $MNT"
# A job that ran while nothing was mounted has left files there.
touch "$MNT/step-1.pt"
refused 1 "the mount would hide 'step-1.pt'" "$BACK" "$MNT"
assert_contains "$OUT" "-o nonempty"
rm "$MNT/step-1.pt"

# What is no directory: a file, and the address of a server or bucket.
touch "$TEST_TMP/file"
refused 1 "the backing $TEST_TMP/file is not a directory" "$TEST_TMP/file" "$MNT"
refused 1 "the mount point $TEST_TMP/file cannot be used: Not a directory" "$BACK" "$TEST_TMP/file"
for remote in s3://bucket/ckpt server:/export/ckpt; do
	refused 1 "$remote is no directory of this host" "$remote" "$MNT"
	assert_contains "$OUT" "mount that first, then name its directory"
done
mkdir -p "$TEST_TMP/odd:/name" # unless there is one of that name
expect_ok "$CKPTFS" mount -o host_cache_size=64M "odd:/name" "$MNT"
umount_ckptfs

# Mounted twice; fsck and init of the mount, and of what is mounted.
mount_ckptfs "$BACK" "$MNT"
daemon=$(daemon_pid)
refused 1 "$MNT is a live ckptfs mount already (of $BACK, daemon pid $daemon)" "$BACK" "$MNT"
assert_contains "$OUT" "ckptfs umount $MNT"
for verb in fsck init; do
	expect_fail "$CKPTFS" "$verb" "$MNT"
	assert_contains "$OUT" "$MNT lies inside the ckptfs mount $MNT"
	assert_contains "$OUT" "name the backing directory of that mount instead"
done
expect_fail "$CKPTFS" fsck "$BACK"
assert_contains "$OUT" "$BACK is mounted at $MNT by a live ckptfs"
assert_contains "$OUT" "on every node that has it mounted: ckptfs umount $MNT"

# The backing, or a directory in the mount, where the mount point is wanted.
for verb in umount drain top; do
	expect_fail "$CKPTFS" "$verb" "$BACK/x.pt"
	assert_contains "$OUT" "$BACK/x.pt lies in the backing of the ckptfs mount $MNT"
done
mkdir "$MNT/run"
expect_fail "$CKPTFS" umount "$MNT/run"
assert_contains "$OUT" "$MNT/run lies inside the ckptfs mount $MNT"
assert_contains "$OUT" "ckptfs umount $MNT"
expect_fail "$CKPTFS" umount "$TEST_TMP/precious"
assert_contains "$OUT" "is not on a ckptfs mount; \`ckptfs status\` lists the mounts of this host"

# In use, also by the shell itself.
hold "$(touch "$MNT/held" && echo "$MNT/held")"
expect_fail "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "$MNT is in use by holder (pid $HOLDER). It stays mounted and nothing is lost"
quit "$HOLDER"
# shellcheck disable=SC2016 # for the inner shell
expect_fail env -C "$MNT/run" bash -c '"$CKPTFS" umount "$1"; exit $?' - "$MNT"
assert_contains "$OUT" "in use by bash (pid "

# The daemon is killed: every verb names the command that clears the mount, and a new mount does so by itself.
kill9_and_reaped "$daemon" 10
for verb in status drain top; do
	expect_fail "$CKPTFS" "$verb" "$MNT"
	assert_contains "$OUT" "the daemon of $MNT is not running" "$verb"
	assert_contains "$OUT" "ckptfs umount $MNT" "$verb"
done
mount_ckptfs "$BACK" "$MNT"
assert_contains "$OUT" "$MNT held the remains of a dead ckptfs daemon; cleared them"
[ -d "$MNT/run" ] || die "not mounted"

# Made read-only while it is mounted, and writable again.
if [ "$(id -u)" = 0 ]; then
	expect_ok "$CKPTFS" mount -o remount,ro "$MNT"
	expect_fail touch "$MNT/x"
	expect_ok "$CKPTFS" mount -o remount,rw "$MNT"
	expect_ok touch "$MNT/x"
fi
umount_ckptfs
expect_fail "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "$MNT is not on a ckptfs mount"

# /dev/fuse is closed to users.
[ "$(id -u)" = 0 ] && [ "$TEST_PRIVATE" = 1 ] || exit 0
user_setup 1001
mkdir "$TEST_TMP/dev"
mount -t tmpfs -o mode=755 tmpfs "$TEST_TMP/dev"
mknod -m 600 "$TEST_TMP/dev/fuse" c 10 229
mount --bind "$TEST_TMP/dev/fuse" /dev/fuse || skip "cannot put another /dev/fuse in place"
AS=(as_user 1001)
expect_ok as_user 1001 "$CKPTFS" init "$BACK"
refused 1 "cannot use /dev/fuse: Permission denied. Nothing was mounted; ask the administrator" "$BACK" "$MNT"
assert_contains "$OUT" "chmod 666 /dev/fuse"
