#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# needs: root
# The verbs of tests/lib.sh that need root: other users, /dev/fuse for them, filesystems of their own.

. "${SRC:?}/tests/lib.sh"

run as_user 1001 id
assert_eq "$OUT" "uid=1001 gid=1001 groups=1001"
run as_user_groups 1001 1002,1003 id -G
assert_eq "$OUT" "1001 1002 1003"
run as_user 1001 ls "$TEST_TMP"
assert_eq "$RC" 0 "a user reaches TEST_TMP: $OUT"

for kind in ext4 xfs; do
	command -v "mkfs.$kind" >/dev/null || continue
	# In a shell of its own, whose exit trap is to clean up, even what is frozen.
	# shellcheck disable=SC2016 # for the inner shell
	run env bash -c '. "$SRC/tests/lib.sh"
		loop_fs "$1" 64 "$TEST_TMP/disk"
		echo data >"$TEST_TMP/disk/file" && fsfreeze -f "$TEST_TMP/disk" || die "cannot freeze"
		stat -f -c "%T $LOOP_DEV" "$TEST_TMP/disk"' bash "$kind"
	[ "$RC" != 77 ] || skip "$OUT"
	assert_eq "$RC" 0 "$OUT"
	assert_contains "$OUT" "${kind/ext4/ext2}"
	assert_eq "$(grep "$TEST_TMP" /proc/self/mountinfo)" "" "mounts left"
	[ ! -e "/sys/block/${OUT##*/}/loop/backing_file" ] || die "${OUT##* } is still attached"
	rm "$TEST_TMP"/loop.*
done

user_fuse 1001
