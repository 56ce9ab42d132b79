#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# git: a repository in the mount, with commits, a clone, gc and fsck.

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs git
mount_ckptfs
export HOME=$TEST_TMP GIT_CONFIG_NOSYSTEM=1
git config --global user.name test
git config --global user.email test@example.org
git config --global init.defaultBranch main
expect_ok git init "$MNT/repo"
cd "$MNT/repo" || die "no repository"
for i in 1 2 3 4 5; do
	mkdir -p "d$i"
	seq "$i" $((i * 2000)) >"d$i/file"
	expect_ok git add .
	expect_ok git commit -m "commit $i"
done
expect_ok git mv d1 moved
expect_ok git commit -am moved
expect_ok git gc --aggressive --prune=now
expect_ok git fsck --full --strict
expect_ok git clone "$MNT/repo" "$MNT/clone"
expect_ok git -C "$MNT/clone" fsck --full
assert_eq "$(git -C "$MNT/clone" status --porcelain)" "" "status of the clone"
expect_ok git -C "$MNT/clone" checkout HEAD~3
cd /
umount_ckptfs
