#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What a user puts in the place of a commit file on the backing, a FIFO that nobody writes to, keeps no checkpoint waiting: it is
# a damaged commit file, and a change to its directory commits that anew.

. "${SRC:?}/tests/lib.sh"

needs_fuse
mount_ckptfs -o host_cache_size=64M
save() {
	mkdir "$MNT/$1"
	head -c 1000 /dev/urandom >"$MNT/$1/__0_0.distcp"
	expect_ok "$CKPTFS" commit "$MNT/$1"
	expect_ok "$CKPTFS" wait --timeout 20 "$MNT/$1"
}
save step-1
umount_ckptfs
rm "$BACK/step-1/.ckptfs-commit.json"
mkfifo "$BACK/step-1/.ckptfs-commit.json"
mount_ckptfs -o host_cache_size=64M
save step-2
expect_ok cmp "$MNT/step-2/__0_0.distcp" "$BACK/step-2/__0_0.distcp"
expect_ok timeout 30 sh -c "echo more >>'$MNT/step-1/__0_0.distcp'"
save step-3
umount_ckptfs
expect_ok "$CKPTFS" verify "$BACK/step-1"
