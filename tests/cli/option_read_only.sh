#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A read-only mount changes nothing, not even .ckptfs in the backing; files are readable.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/back"
echo data >"$TEST_TMP/back/file"
before=$(listing "$TEST_TMP/back")
mount_ckptfs -o ro
assert_eq "$(cat "$MNT/file")" data
for change in "touch new" "rm file" "mkdir dir" "mv file other" "ln file hard" "chmod 600 file" "truncate -s 0 file" \
	"touch file" "tee file" "setfattr -n user.a -v b file"; do
	# shellcheck disable=SC2086 # words
	run env -C "$MNT" $change
	[ "$RC" != 0 ] || die "possible on a read-only mount: $change"
	[ "$RC" = 127 ] || assert_contains "$OUT" "Read-only file system" "$change"
done
expect_ok "$CKPTFS" status "$MNT"
assert_contains "$OUT" "$MNT (read-only)"
assert_eq "$(status_of 'x["read_only"]')" True
umount_ckptfs
assert_eq "$(listing "$BACK")" "$before" "the backing"
mount_ckptfs
assert_eq "$(status_of 'x["read_only"]')" False
umount_ckptfs
