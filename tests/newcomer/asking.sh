#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Questions as a newcomer asks them, and mistakes in asking: wait on a typo, on a directory, on an ordinary file; why of a
# path on the backing; an own layout; commit of the wrong thing; a writer that was killed; latest of a missing directory.
#
# timeout: 90

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
needs python3
mount_ckptfs
mkdir "$MNT/run" "$MNT/my_ckpt"
for name in step-99 step-100; do
	head -c 5000 /dev/urandom >"$MNT/run/$name.pt"
	expect_ok "$CKPTFS" wait "$MNT/run/$name.pt"
done

# A typo: in the last name, in a directory; said while it waits, and when the time is over. JSON, too.
expect_fail "$CKPTFS" wait --timeout 0.1s "$MNT/run/step-100.tp"
assert_contains "$OUT" "is not there after 0.1 s: it does not exist yet; the nearest name there: $MNT/run/step-100.pt"
expect_fail "$CKPTFS" wait --timeout 0 "$MNT/rnu/step-99.pt"
assert_contains "$OUT" "the nearest name there: $MNT/run"
"$CKPTFS" wait "$MNT/run/stpe-100.pt" 2>"$TEST_TMP/said" &
waiter=$!
wait_until 20 grep -q "waiting for .*stpe-100.pt: it does not exist yet; the nearest name there: $MNT/run/step-100.pt" "$TEST_TMP/said"
kill "$waiter"
"$CKPTFS" wait --json --timeout 0 "$MNT/run/step-100.tp" >"$TEST_TMP/json" 2>/dev/null && die "a typo was there"
assert_eq "$(value 'x["ok"], x["error"]["code"], "nearest name there" in x["error"]["message"]' "$(cat "$TEST_TMP/json")")" \
	"(False, 'ETIMEDOUT', True)"
expect_ok "$CKPTFS" wait --json --timeout 1m "$MNT/run/step-100.pt"
assert_eq "$(value 'x["ok"], x["state"]' "$OUT")" "(True, 'committed')"
for time in 30x 5ms m -1 "" 1h1; do
	run "$CKPTFS" wait --timeout "$time" "$MNT/run/step-100.pt"
	assert_eq "$RC" 2 "--timeout $time: $OUT"
	assert_contains "$OUT" "--timeout takes 30, 30s, 5m or 1h"
done
for time in 0 1.5 2s 2m 1h; do
	expect_ok "$CKPTFS" wait --timeout "$time" "$MNT/run/step-100.pt"
done

# A directory, and an own layout: each file by itself.
head -c 3000 /dev/urandom >"$MNT/my_ckpt/weights.bin2"
head -c 3000 /dev/urandom >"$MNT/my_ckpt/opt.dat"
expect_fail "$CKPTFS" wait "$MNT/my_ckpt"
assert_contains "$OUT" "my_ckpt is a directory that no rule claims, and is never committed as a whole"
assert_contains "$OUT" "ckptfs drain $MNT"
expect_ok "$CKPTFS" why "$MNT/my_ckpt"
assert_contains "$OUT" "no rule claims it: the checkpoints in it are saved one by one, not together"
expect_fail "$CKPTFS" wait "$MNT/my_ckpt/weights.bin2"
assert_contains "$OUT" "is an ordinary file: no rule claims this name, so nothing of it is committed"
run "$CKPTFS" wait --json "$MNT/my_ckpt/opt.dat"
assert_contains "$OUT" '"code": "EOPNOTSUPP"'
run "$CKPTFS" wait --json "$MNT/my_ckpt"
assert_contains "$OUT" '"code": "EISDIR"'

# commit of the wrong thing.
for path in "$MNT/run/step-100.pt" "$MNT/none"; do
	run "$CKPTFS" commit --json "$path"
	assert_eq "$RC" 1 "$OUT"
	assert_contains "$OUT" "is no checkpoint that is being written, so there is nothing to commit"
	assert_contains "$OUT" '"code": "ENOENT"'
done
expect_fail "$CKPTFS" commit "$TEST_TMP"
assert_contains "$OUT" "is not on a ckptfs mount"

# On the backing: as the mount says it.
python3 -c 'import os, sys, time
with open(sys.argv[1], "wb", 0) as f:
	f.write(b"some")
	while not os.path.exists(sys.argv[2]):
		time.sleep(0.02)' "$MNT/run/step-101.pt" "$TEST_TMP/go" &
wait_until 10 test -s "$MNT/run/step-101.pt"
expect_ok "$CKPTFS" why "$BACK/run/step-101.pt"
assert_contains "$OUT" "run/step-101.pt: open (being written)"
expect_fail "$CKPTFS" wait --timeout 0 "$BACK/run/step-101.pt"
assert_contains "$OUT" "no end seen yet"
expect_ok "$CKPTFS" status "$BACK/run/step-100.pt"
assert_contains "$OUT" "run/step-100.pt: committed"
run "$CKPTFS" latest "$MNT/run"
assert_eq "$RC" 0 "$OUT"
assert_contains "$OUT" "$MNT/run/step-100.pt"
assert_contains "$OUT" "step-101.pt is newer, but "
touch "$TEST_TMP/go"
expect_ok "$CKPTFS" wait "$BACK/run/step-101.pt"

# A writer that was killed: who, by what, what is still there; and nothing else.
python3 -c 'import os, sys
with open(sys.argv[1], "wb", buffering=0) as f:
	f.write(b"x" * 300000)
	os.kill(os.getpid(), 9)' "$MNT/run/step-101.pt" 2>/dev/null
wait_until 10 eval 'expect_ok "$CKPTFS" why "$MNT/run/step-101.pt" && grep -q failed <<<"$OUT"'
assert_contains "$OUT" "was killed by signal 9 (Killed)"
assert_eq "$(wc -l <<<"$OUT")" 2 "$OUT"

# A missing directory: its name once, and the one that was meant.
for verb in latest ls; do
	expect_fail "$CKPTFS" $verb "$MNT/rum"
	assert_eq "$OUT" "ckptfs: $MNT/rum does not exist; the nearest name there: $MNT/run. \`ckptfs ls\` of a directory lists the checkpoints below it"
	run "$CKPTFS" $verb --json "$MNT/rum"
	assert_contains "$OUT" '"code": "ENOENT"'
done
expect_fail "$CKPTFS" latest "$MNT/my_ckpt"
assert_contains "$OUT" "there is no checkpoint at or below $MNT/my_ckpt"

# Without a mount: what is recorded answers.
umount_ckptfs
printf 'older' >"$BACK/run/foreign.pt"
mkdir -p "$BACK/step-7" "$BACK/empty"
printf 'model' >"$BACK/step-7/model.pt"
python3 "$SRC/tests/cli/commit.py" "$BACK/step-7" || die "no commit file"
# bare PATH WORDS: what why says of it.
bare() {
	expect_ok "$CKPTFS" why "$BACK/$1"
	assert_eq "$(head -n 1 <<<"$OUT")" "$1: $2"
}
bare run/step-100.pt committed
bare step-7 committed
bare step-7/model.pt committed
bare run/foreign.pt "foreign (not saved as a checkpoint)"
bare my_ckpt/opt.dat "ordinary file, NOT protected"
bare empty directory
bare run/step-200.pt absent
assert_contains "$OUT" "the nearest name there: $BACK/run/step-100.pt"
printf 'more' >>"$BACK/run/step-99.pt"
bare run/step-99.pt committed
assert_contains "$OUT" "it was changed since it was saved"
for path in run/step-100.pt step-7 step-7/model.pt; do
	expect_ok "$CKPTFS" wait --timeout 1s "$BACK/$path"
done
for path in run/step-100.pt step-7; do
	expect_ok "$CKPTFS" status "$BACK/$path"
	assert_contains "$OUT" "$path: committed"
done
expect_fail "$CKPTFS" wait "$BACK/run/foreign.pt"
assert_contains "$OUT" "run/foreign.pt has no digest"
for path in my_ckpt/opt.dat empty; do
	expect_fail "$CKPTFS" wait "$BACK/$path"
done
expect_fail "$CKPTFS" wait --timeout 0 "$BACK/run/step-200.pt"
assert_contains "$OUT" "does not exist yet"
for verb in why wait status commit; do
	run "$CKPTFS" $verb --json "$TEST_TMP"
	assert_eq "$RC" 1 "$OUT"
	assert_contains "$OUT" '"ok": false'
	assert_contains "$OUT" "is not on a ckptfs mount"
done
expect_fail "$CKPTFS" commit "$BACK/run/step-100.pt"
assert_contains "$OUT" "is not on a ckptfs mount"
expect_fail "$CKPTFS" status "$BACK"
