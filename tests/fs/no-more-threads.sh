#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that gets no more threads, on a backing that answers nothing: requests queue, waits can still be killed,
# the daemon says what is wrong, and all goes on when there are threads again.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

ops=(mkdir stat create unlink rename read write fsync truncate rmdir symlink chmod link mknod)
uid=1017 # with no other process: the limit counts those of the user

bindfs_mount "$TEST_TMP/back" "$TEST_TMP/served"
user_fuse "$uid"
name_user "$uid"
echo user_allow_other >"$TEST_TMP/.fuse.conf"
mount --bind "$TEST_TMP/.fuse.conf" /etc/fuse.conf || skip "cannot let users give others access"
MNT=$TEST_TMP/mnt CKPTFS_RUN_DIR=$TEST_TMP/run
mkdir "$MNT" "$CKPTFS_RUN_DIR"
chown "$uid:$uid" "$MNT" "$CKPTFS_RUN_DIR" "$TEST_TMP/back"
cd "$TEST_TMP" || die "cannot enter $TEST_TMP"
as_user "$uid" "$CKPTFS" mount -f -o allow_other,host_cache_size=64M "$TEST_TMP/served" "$MNT" >"$TEST_TMP/log" 2>&1 &
on_exit "$CKPTFS" umount --force "$MNT"
wait_until 10 grep -q "Ctrl-C unmounts" "$TEST_TMP/log" || skip "$(cat "$TEST_TMP/log")"
daemon=$(daemon_pid)
chmod 0777 "$TEST_TMP/back"
for op in "${ops[@]}"; do
	start_op "$op"
done
expect_ok as_user "$uid" prlimit --pid "$daemon" --nproc=1:
kill -STOP "$SERVER"
go "${ops[@]}"
wait_until 10 grep -q "cannot start another thread" "$TEST_TMP/log"
wait_until 10 status_is "s['requests']['queued'] >= 1"
kill -9 "${WAITER[mkdir]}" "${WAITER[read]}"
assert_gone_soon "${WAITER[mkdir]}" "${WAITER[read]}"
expect_ok as_user "$uid" prlimit --pid "$daemon" --nproc=4096:
kill -CONT "$SERVER"
for op in create unlink rename write fsync truncate; do
	wait "${WAITER[$op]}"
	assert_eq "$(result "$op")" ok "$op"
done
