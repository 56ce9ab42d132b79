#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A backing that answers nothing at all (its server is stopped): more programs than the daemon has threads wait in
# all kinds of calls, each can be killed, status answers meanwhile, and afterwards nothing is left open.
#
# timeout: 120
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

OPS=(write append read read-rdwr fsync close ftruncate fallocate lseek fstat copy truncate create open open-trunc
	mkdir rmdir mknod symlink link unlink rename chmod utimens setxattr getxattr stat readlink statfs readdir hold)

bindfs_mount "$TEST_TMP/dir" "$TEST_TMP/served"
mount_ckptfs "$TEST_TMP/served"
daemon=$(daemon_pid)
for op in "${OPS[@]}"; do
	start_op "$op"
done
writers=()
for ((i = 0; i < 140; i++)); do
	mkdir "$MNT/many$i"
done
kill -STOP "$SERVER"
go "${OPS[@]}"
for ((i = 0; i < 140; i++)); do
	sh -c 'echo $$ >"$1"' - "$MNT/many$i/file" 2>/dev/null &
	writers+=($!)
done
wait_until 20 status_is "s['requests']['in_flight'] >= 150 and s['requests']['queued'] > 0"
wait_until 10 status_is "len(s['requests']['waiting']) >= 10"
expect_ok timeout 2 "$CKPTFS" status "$MNT"
for op in "${OPS[@]}"; do
	kill -9 "${WAITER[$op]}" 2>/dev/null
done
kill -9 "${writers[@]}"
for op in "${OPS[@]}"; do
	assert_gone_soon "${WAITER[$op]}"
done
assert_gone_soon "${writers[@]}"
kill -CONT "$SERVER"
wait_until 20 status_is "s['requests']['in_flight'] == 0"
wait_until 10 status_is "s['open_handles'] == 0"
expect_ok sh -c "echo again >$MNT/after && cat $MNT/after"
assert_eq "$OUT" again
assert_eq "$(daemon_pid)" "$daemon" "pid of the daemon"
umount_ckptfs
