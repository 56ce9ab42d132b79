#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# status and top without a path tell of every mount of this host, whatever state its daemon is in.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
only_own_mounts
none="no ckptfs is mounted on this host. To mount one: ckptfs mount BACKING MOUNTPOINT"
for verb in "status" "top"; do
	expect_fail "$CKPTFS" "$verb"
	assert_eq "$OUT" "ckptfs: $none" "$verb"
	assert_eq "$RC" 1
done
said=$("$CKPTFS" status --json 2>/dev/null) && die "status of nothing is 0"
assert_eq "$(value 'x' "$said")" "{'ok': False, 'mounts': [], 'error': {'code': 'ENODEV', 'message': '$none'}}"

# line MOUNTPOINT: of the table in $OUT, its words with one blank between.
line() {
	grep "^$1 " <<<"$OUT" | tr -s ' '
}

mount_ckptfs -o ro "$TEST_TMP/b2" "$TEST_TMP/m2"
umount_ckptfs
mount_ckptfs
daemon=$(daemon_pid)
expect_ok "$CKPTFS" status
assert_eq "$(head -n 1 <<<"$OUT" | tr -s ' ')" "MOUNTPOINT BACKING DAEMON UNCOMMITTED FAILURES"
assert_eq "$(line "$MNT")" "$MNT $BACK live, pid $daemon 0 0"
expect_ok "$CKPTFS" top -n 1
[[ $OUT =~ "absorbed -  flushed -" ]] || die "top of the only mount: $OUT"
mkdir "$TEST_TMP/bind"
mount --bind "$MNT" "$TEST_TMP/bind"
expect_ok "$CKPTFS" status
assert_eq "$(wc -l <<<"$OUT")" 2 "a bind mount is no other one: $OUT"
umount -i "$TEST_TMP/bind"

mount_ckptfs -o ro "$TEST_TMP/b2" "$TEST_TMP/m2"
exec 8>"$TEST_TMP/mnt/open.pt"
echo x >&8
expect_ok "$CKPTFS" status
assert_eq "$(line "$TEST_TMP/mnt")" "$TEST_TMP/mnt $TEST_TMP/back live, pid $daemon 1 0"
assert_eq "$(line "$TEST_TMP/m2")" "$TEST_TMP/m2 $TEST_TMP/b2 live, pid $(daemon_pid) 0 0 read-only"
run "$CKPTFS" top
assert_eq "$RC" 1 "top of two"
assert_contains "$OUT" "MOUNTPOINT "
assert_contains "$OUT" "name the one to watch: ckptfs top MOUNTPOINT"
assert_eq "$(value '[(m["mountpoint"][-3:], m["state"], m["pending"], m["read_only"]) for m in x["mounts"]], x["ok"]' \
	"$("$CKPTFS" status --json)")" "([('mnt', 'live', 1, False), ('/m2', 'live', 0, True)], True)"

# One that does not answer, and one that is dead.
exec 8>&-
second=$(daemon_pid "$TEST_TMP/m2")
kill -STOP "$daemon"
kill9_and_reaped "$second" 10
run timeout 5 "$CKPTFS" status
kill -CONT "$daemon"
assert_eq "$RC" 1
assert_contains "$(line "$TEST_TMP/mnt")" "silent, pid $daemon ? ?"
assert_contains "$(line "$TEST_TMP/m2")" " dead"
assert_contains "$OUT" "the daemon of $TEST_TMP/m2 is not running"
assert_contains "$OUT" "the daemon of $TEST_TMP/mnt (pid $daemon) does not answer"
said=$("$CKPTFS" status --json 2>/dev/null)
assert_eq "$(value '[m["state"] for m in x["mounts"]], x["ok"], "not running" in x["mounts"][1]["error"]["message"]' "$said")" \
	"(['live', 'dead'], False, True)"
umount_ckptfs "$TEST_TMP/m2"
umount_ckptfs "$TEST_TMP/mnt"
