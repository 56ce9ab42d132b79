#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# cp -a, tar and rsync of a tree with everything in it, into the mount, within it, and out: the same on both ends.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs
tree=$TEST_TMP/tree
mkdir -p "$tree/sub/deeper" "$tree/empty"
head -c 3000000 /dev/urandom >"$tree/data"
truncate -s 50M "$tree/sparse"
printf x >"$tree/sub/executable"
chmod 751 "$tree/sub/executable"
chmod 1777 "$tree/empty"
ln "$tree/data" "$tree/sub/hard"
ln -s ../data "$tree/sub/soft"
ln -s nowhere "$tree/dangling"
mkfifo "$tree/fifo"
# Long ago: rsync leaves the times of what is no file as they are, if they differ by less than a second.
find "$tree" -depth -exec touch -h -d "2001-02-03 04:05:06.123456789" {} +
run setfattr -n user.note -v value "$tree/data"

listing() {
	(cd "$1" && find . -printf '%P %y %m %n %s %T@ %l %U %G\n' | sed -E '/^[^ ]* d/s/ [0-9]+ [0-9]+ / /' | sort &&
		find . -type f -exec cksum {} + | sort)
}
want=$(listing "$tree")
expect_ok cp -a "$tree" "$MNT/cp"
assert_eq "$(listing "$MNT/cp")" "$want" "cp -a into the mount"
expect_ok cp -a "$MNT/cp" "$MNT/cp2"
assert_eq "$(listing "$MNT/cp2")" "$want" "cp -a within the mount"
expect_ok cp -a "$MNT/cp2" "$TEST_TMP/out"
assert_eq "$(listing "$TEST_TMP/out")" "$want" "cp -a out of the mount"
[ "$(stat -c %b "$MNT/cp/sparse")" -lt 1000 ] || die "the sparse file has $(stat -c %b "$MNT/cp/sparse") blocks"
expect_ok tar --format=posix -C "$MNT" -cSf "$MNT/archive.tar" cp
mkdir "$MNT/tar"
expect_ok tar -C "$MNT/tar" -xpf "$MNT/archive.tar"
assert_eq "$(listing "$MNT/tar/cp")" "$want" "tar"
if command -v rsync >/dev/null; then
	expect_ok rsync -aHS "$tree/" "$MNT/rsync"
	assert_eq "$(listing "$MNT/rsync")" "$want" "rsync"
fi
expect_ok rm -r "$MNT/cp" "$MNT/cp2" "$MNT/tar"
umount_ckptfs
