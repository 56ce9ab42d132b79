#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# SIGTERM to a daemon whose mount point another filesystem covers does not unmount that other one.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
daemon=$(daemon_pid)
expect_ok mount -t tmpfs tmpfs "$MNT"
echo data >"$MNT/file"
kill -TERM "$daemon"
signal_taken() {
	# In SigPnd and ShdPnd no signal is left to be taken.
	[ "$(sed -n 's/^ShdPnd:\t//p' "/proc/$daemon/status" 2>/dev/null)" != 0000000000004000 ]
}
wait_until 10 signal_taken
"$CKPTFS" status "$MNT" >/dev/null 2>&1
assert_eq "$(cat "$MNT/file" 2>&1)" data "the file on the other filesystem"
umount -i "$MNT"
kill -TERM "$daemon"
wait_until 10 _gone "$daemon"
