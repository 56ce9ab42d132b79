#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount(8) of a mount in use is refused and harms nothing; `umount -l` lets the daemon end with the last open file.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
daemon=$(daemon_pid)
exec 9>"$MNT/file"
expect_fail umount -i "$MNT"
echo one >&9
assert_eq "$(cat "$MNT/file")" one
expect_ok umount -i -l "$MNT"
echo two >&9
assert_eq "$(tail -1 "$BACK/file")" two
! _gone "$daemon" || die "the daemon has ended before the last open file"
exec 9>&-
wait_until 10 _gone "$daemon"
wait_until 10 run_dir_is_empty
