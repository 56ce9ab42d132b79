#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# wait, why and status of a file that is being saved, was saved, failed, was removed, or is none; its xattrs, and
# trace.json and the metrics afterwards.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
needs getfattr

# state_of PATH: by its xattr
state_of() {
	getfattr --only-values --absolute-names -n user.ckptfs.state "$1"
}

mount_ckptfs -o flush_bw=$((4000000 / ${TEST_SLOW:-1}))
mkdir "$MNT/dir"
head -c 8000000 /dev/urandom >"$TEST_TMP/bytes"
cp "$TEST_TMP/bytes" "$MNT/dir/x.pt"
assert_eq "$(state_of "$MNT/dir/x.pt")" sealed
expect_ok "$CKPTFS" why "$MNT/dir/x.pt"
assert_contains "$OUT" "dir/x.pt: sealed"
assert_contains "$OUT" "closed; "
expect_ok "$CKPTFS" why --json "$MNT/dir/x.pt"
assert_eq "$(value 'x["state"], x["kind"], x["size"], x["handles"], x["writers"]' "$OUT")" "('sealed', 'unit', 8000000, 0, 0)"
expect_ok "$CKPTFS" status "$MNT"
assert_contains "$OUT" "1 not yet published"
assert_contains "$OUT" "MiB of 7.6 MiB are still to be written to the backing"
expect_ok "$CKPTFS" status "$MNT/dir/x.pt"
assert_contains "$OUT" "dir/x.pt: sealed"
expect_ok "$CKPTFS" status --json "$MNT/dir/x.pt"
assert_eq "$(value 'x["state"]' "$OUT")" sealed
expect_ok "$CKPTFS" wait --state captured "$MNT/dir/x.pt"
expect_fail "$CKPTFS" wait --timeout 0.01 "$MNT/dir/x.pt"
assert_contains "$OUT" "is not there after 0.01 s: closed;"
expect_ok "$CKPTFS" wait "$MNT/dir/x.pt"
cmp "$BACK/dir/x.pt" "$TEST_TMP/bytes" || die "not published when wait returned"
assert_eq "$(state_of "$MNT/dir/x.pt")" committed
expect_ok "$CKPTFS" why "$MNT/dir/x.pt"
assert_contains "$OUT" "dir/x.pt: committed"
expect_ok "$CKPTFS" verify "$MNT/dir/x.pt"
expect_ok getfattr --absolute-names -d "$MNT/dir/x.pt"
assert_eq "$OUT" "" "xattrs of ckptfs are not listed, so that copies do not have them"

# One that is not there yet is waited for.
"$CKPTFS" wait "$MNT/later.pt" &
waiter=$!
expect_fail "$CKPTFS" wait --timeout 0.01 "$MNT/later.pt"
assert_contains "$OUT" "it does not exist yet"
echo x >"$MNT/later.pt"
wait "$waiter" || die "wait failed for a file that came later"
cmp "$BACK/later.pt" "$MNT/later.pt" || die "later.pt is not published"

# One whose writer dies. The old file stays.
python3 -c 'import os, sys
with open(sys.argv[1], "wb", buffering=0) as f:
	f.write(b"x" * 3000000)
	os.kill(os.getpid(), 9)' "$MNT/dir/x.pt" 2>"$TEST_TMP/killed"
wait_until 10 eval 'expect_ok "$CKPTFS" why "$MNT/dir/x.pt" && grep -q failed <<<"$OUT"'
assert_contains "$OUT" "was killed by signal 9 (Killed)"
cmp "$MNT/dir/x.pt" "$TEST_TMP/bytes" || die "the old file is not whole"
expect_ok "$CKPTFS" status "$MNT"
assert_contains "$OUT" "was killed by signal 9"

# One that is removed while it is waited for.
head -c 40000000 /dev/urandom >"$MNT/gone.pt"
"$CKPTFS" wait "$MNT/gone.pt" 2>"$TEST_TMP/said" &
waiter=$!
wait_until 10 grep -q "waiting for .*gone.pt: closed; " "$TEST_TMP/said"
rm "$MNT/gone.pt"
wait "$waiter" && die "wait succeeded for a file that was removed"
assert_contains "$(cat "$TEST_TMP/said")" "gone.pt' that was waited for is dropped"

# Those that are no units, or not there.
echo x >"$MNT/plain"
expect_fail "$CKPTFS" wait "$MNT/plain"
assert_contains "$OUT" "is an ordinary file: no rule claims this name"
expect_ok "$CKPTFS" why "$MNT/plain"
assert_contains "$OUT" "plain: ordinary file, NOT protected"
assert_eq "$(state_of "$MNT/plain")" ordinary
expect_ok "$CKPTFS" why "$MNT/none"
assert_contains "$OUT" "none: absent"
mkdir "$MNT/directory"
expect_fail "$CKPTFS" wait --timeout 0 "$MNT/directory" # its first file decides what it is
assert_contains "$OUT" "no file in it makes it a checkpoint yet"
touch "$MNT/directory/notes.txt"
for directory in "$MNT" "$MNT/directory"; do
	expect_fail "$CKPTFS" wait "$directory"
	assert_contains "$OUT" "is a directory that no rule claims"
	assert_contains "$OUT" "ckptfs drain $MNT"
	expect_ok "$CKPTFS" why "$directory"
	assert_contains "$OUT" ": directory"
done
echo foreign >"$BACK/foreign.pt"
expect_ok "$CKPTFS" why "$MNT/foreign.pt"
assert_contains "$OUT" "foreign.pt: foreign (not saved as a checkpoint)"
assert_eq "$(state_of "$MNT/foreign.pt")" foreign
for state in captured durable committed; do
	expect_fail "$CKPTFS" wait --state "$state" "$MNT/foreign.pt"
	assert_contains "$OUT" "foreign.pt has no digest: no mount saved it as a checkpoint"
done
ln -s plain "$MNT/link"
echo step-1 >"$MNT/latest"
for pointer in link latest; do
	expect_ok "$CKPTFS" wait "$MNT/$pointer"
	expect_ok "$CKPTFS" why "$MNT/$pointer"
	assert_contains "$OUT" "$pointer: committed"
	assert_contains "$OUT" "it names another file or directory"
done
expect_fail "$CKPTFS" wait "$TEST_TMP/bytes"
expect_fail "$CKPTFS" why "$TEST_TMP/bytes"

assert_eq "$(value '{e["name"] for e in x["traceEvents"] if e["ph"] == "X" and e["args"]["path"] == "dir/x.pt"} >= {"absorb", "flush", "commit"}' \
	"$(cat "$MNT/.ckptfs/trace.json")")" True
for name in absorbed_bytes_total flushed_bytes_total cache_bytes committed_total failed_total stalls_total; do
	grep -q "^ckptfs_$name{node=" "$MNT/.ckptfs/metrics" || die "no metric $name"
done
grep -q '^ckptfs_failed_total{.*} 1$' "$MNT/.ckptfs/metrics" || die "failed_total is not 1"
for usage in "wait" "wait --state sealed $MNT" "wait --timeout x $MNT" "why" "why --nonsense $MNT"; do
	# shellcheck disable=SC2086 # words
	"$CKPTFS" $usage 2>"$TEST_TMP/said"
	assert_eq "$?" 2 "$usage"
done

# A daemon that is there and slow is waited for: what the backing has may be the version before.
head -c 1000000 /dev/urandom >"$MNT/slow.pt"
expect_ok "$CKPTFS" wait "$MNT/slow.pt"
pid=$(value 'x["pid"]' "$("$CKPTFS" status --json "$MNT")")
kill -STOP "$pid"
run "$CKPTFS" wait --timeout 1 "$BACK/slow.pt"
kill -CONT "$pid"
assert_eq "$RC" 1 "wait while the daemon is stopped: $OUT"
assert_contains "$OUT" "does not answer"
expect_ok "$CKPTFS" wait "$BACK/slow.pt"
umount_ckptfs
