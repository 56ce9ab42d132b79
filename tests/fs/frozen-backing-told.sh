#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The log tells of an operation that waits long for the backing, of one that was given up, and of how that ended;
# failures.json lists the first two with path, count and whose they are.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
loop_fs ext4 64 "$TEST_TMP/disk"
MNT=$TEST_TMP/mnt BACK=$TEST_TMP/disk LOG=$TEST_TMP/daemon.log
mkdir "$MNT"
"$CKPTFS" mount -f -o host_cache_size=64M "$BACK" "$MNT" 2>"$LOG" &
wait_until 20 mountpoint -q "$MNT"
wait_until 20 status_is True
start_op write
start_op rename
expect_ok fsfreeze -f "$BACK"
go write rename
wait_until 10 waits_as WRITE RENAME # a lookup on the way is not enough
kill -9 "${WAITER[rename]}"
assert_gone_soon "${WAITER[rename]}"
wait_until 5 grep -E "RENAME2? of 'rename' \(pid ${WAITER[rename]}\) was interrupted after waiting [0-9.]+ s" "$LOG"
wait_until 20 grep -E "WRITE of 'write/file' \(pid ${WAITER[write]}\) has waited 1[0-9] s for the backing $BACK" "$LOG"
expect_ok fsfreeze -u "$BACK"
wait_until 10 grep -E "RENAME2? of 'rename', given up earlier, ended after [0-9.]+ s: it took effect" "$LOG"
wait_until 10 _gone "${WAITER[write]}"
assert_eq "$(result write)" ok "a write that only waited"
assert_eq "$(failures_of "sorted((x['errno'], x['path'], x['count'], x['uid']) for x in f)")" \
	"[('EINTR', 'rename', 1, 0), ('ETIMEDOUT', 'write/file', 1, 0)]"
umount_ckptfs
