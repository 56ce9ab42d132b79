#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# status of a mount whose daemon is stopped says so within two seconds, from any path, and as JSON.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs
mkdir -p "$MNT/a/b"
daemon=$(daemon_pid)
kill -STOP "$daemon"
for path in "$MNT" "$MNT/a/b" "$MNT/none"; do
	run timeout 2 "$CKPTFS" status "$path"
	assert_eq "$RC" 1 "$OUT"
	assert_contains "$OUT" "the daemon of $MNT (pid $daemon) does not answer"
	assert_contains "$OUT" "ckptfs umount --force $MNT"
done
json=$(timeout 2 "$CKPTFS" status --json "$MNT" 2>/dev/null)
assert_eq $? 1 "exit status with --json"
assert_eq "$(value 'x["state"], x["pid"], x["mountpoint"], x["backing"]' "$json")" \
	"('silent', $daemon, '$MNT', '$BACK')"
assert_contains "$(value 'x["message"]' "$json")" "does not answer"
# A queue full of those who have asked changes nothing; nor does what a dead daemon of another directory has left.
if [ "$TEST_PRIVATE" = 1 ]; then
	dead=/run/ckptfs/$(basename "$(socket)")
	mkdir -p /run/ckptfs
	mount -t tmpfs tmpfs /run/ckptfs || die "no directory of sockets"
	expect_ok python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$dead"
fi
for _ in {1..80}; do
	timeout 2 "$CKPTFS" status "$MNT" >/dev/null 2>&1 &
done
run timeout 4 "$CKPTFS" status "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "does not answer"
# Who waits goes on waiting, for as long as was said.
run timeout 20 "$CKPTFS" wait --timeout 2 "$MNT/none"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "does not answer"
"$CKPTFS" wait "$MNT/file.pt" 2>"$TEST_TMP/said" &
waiter=$!
wait_until 20 grep -q "does not answer" "$TEST_TMP/said"
kill -CONT "$daemon"
echo x >"$MNT/file.pt"
wait "$waiter" || die "$(cat "$TEST_TMP/said")"
wait
expect_ok timeout 2 "$CKPTFS" status "$MNT"
umount_ckptfs
