#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# drain waits until what a job saves is committed, longer than its time-out while bytes move, and leaves the mount, and what
# other jobs save, alone. What is not committed is named with what is missing, or why it failed; exit status 1.
# timeout: 120

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
FLUSH=$((3000000 / ${TEST_SLOW:-1}))

# as_job ID CMD...: as a task of that Slurm job, without a rank.
as_job() {
	local id=$1
	shift
	env SLURM_JOB_ID="$id" SLURM_STEP_ID=0 "$@"
}

# state_of PATH: of a save.
state_of() {
	value 'x["state"]' "$("$CKPTFS" why --json "$MNT/$1")"
}

is_state() {
	[ "$(state_of "$1")" = "$2" ]
}

uid=$(id -u)
mount_ckptfs -o "quiet_s=3600,flush_bw=$FLUSH"
expect_ok "$CKPTFS" drain "$MNT"
assert_eq "$OUT" "$MNT: nothing is left to commit; 0 checkpoints were committed meanwhile"

# Longer than the time-out; progress is told meanwhile; the mount stays, and is used.
head -c 9000000 /dev/urandom >"$TEST_TMP/bytes"
exec 9>"$MNT/plain"
as_job 8123 cp "$TEST_TMP/bytes" "$MNT/x.pt"
expect_ok "$CKPTFS" drain --job 8123 --timeout "$((2 * ${TEST_SLOW:-1}))" "$MNT"
assert_contains "$OUT" "$MNT: nothing of job 8123 is left to commit; 1 checkpoints were committed meanwhile"
assert_contains "$OUT" "MiB and 1 checkpoints left to commit"
cmp "$BACK/x.pt" "$TEST_TMP/bytes" || die "not committed when drain returned"
is_mounted || die "drain has unmounted"
exec 9>&-

# Of two jobs, both waiting for a silence of an hour after all who wrote have ended well, only the one that is named.
mkdir "$TEST_TMP/unit"
for file in __0_0.distcp __1_0.distcp .metadata; do
	head -c 1000 /dev/urandom >"$TEST_TMP/unit/$file"
done
as_job 8123 cp -r "$TEST_TMP/unit" "$MNT/step-1"
as_job 81230 cp -r "$TEST_TMP/unit" "$MNT/step-2"
assert_eq "$(state_of step-1) $(state_of step-2)" "open open"
expect_ok "$CKPTFS" status "$MNT"
assert_contains "$OUT" "of job $uid/slurm/8123.0/r0"
expect_ok "$CKPTFS" drain --job "$uid/slurm/8123.0/r0" --json "$MNT"
assert_eq "$(value 'x["committed"], x["left"], x["failed"]' "$OUT")" "(1, [], [])"
assert_eq "$(state_of step-1) $(state_of step-2)" "committed open"
expect_ok "$CKPTFS" verify "$BACK/step-1"
expect_ok "$CKPTFS" drain --job 8123 "$MNT"
assert_eq "$(state_of step-2)" open "a job of which the number begins alike"
expect_ok "$CKPTFS" drain "$MNT"
expect_ok "$CKPTFS" verify "$BACK/step-2"

# One that is still written is waited for, and what is begun after that is not.
mkfifo "$TEST_TMP/fifo"
# shellcheck disable=SC2016 # for the inner shell
as_job 7 sh -c 'exec >"$1" && echo x && read -r _ <"$2"' - "$MNT/open.pt" "$TEST_TMP/fifo" &
wait_until 10 is_state open.pt open
run "$CKPTFS" drain --job 7 --timeout 1 "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_contains "$OUT" "the checkpoint 'open.pt' of job $uid/slurm/7.0/r0 is not committed, and nothing has moved for 1 s: no end seen yet: 1 process wrote it and has not closed it. It stays as it is"
run "$CKPTFS" drain --timeout 0 --json "$MNT"
assert_eq "$RC" 1 "$OUT"
assert_eq "$(value 'x["nr_left"], [(u["path"], u["state"], u["job"]) for u in x["left"]]' "$OUT")" \
	"(1, [('open.pt', 'open', '$uid/slurm/7.0/r0')])"
"$CKPTFS" drain "$MNT" >"$TEST_TMP/drained" 2>&1 &
drain=$!
wait_until 20 grep -q "0 MiB and 1 checkpoints left to commit" "$TEST_TMP/drained"
exec 8>"$MNT/later.pt"
echo >"$TEST_TMP/fifo"
wait "$drain" || die "the drain failed: $(cat "$TEST_TMP/drained")"
assert_eq "$(cat "$BACK/open.pt")" x
assert_eq "$(state_of later.pt)" open
exec 8>&-

# One that fails meanwhile.
as_job 7 sh -c 'exec >"$1" && echo x && read -r _ <"$2"' - "$MNT/killed.pt" "$TEST_TMP/fifo" &
writer=$!
wait_until 10 is_state killed.pt open
"$CKPTFS" drain "$MNT" >"$TEST_TMP/failing" 2>&1 &
drain=$!
wait_until 20 grep -q "1 checkpoints left to commit" "$TEST_TMP/failing"
pkill -9 -P "$writer" || kill -9 "$writer"
wait "$drain" && die "the drain succeeded: $(cat "$TEST_TMP/failing")"
assert_contains "$(cat "$TEST_TMP/failing")" "a process that was writing 'killed.pt' was killed by signal 9"
# One that failed before is of interest where its job is asked for, until something is committed beside it.
expect_ok "$CKPTFS" drain "$MNT"
expect_ok "$CKPTFS" drain --job 8123 "$MNT"
expect_fail "$CKPTFS" drain --job 7 "$MNT"
assert_contains "$OUT" "'killed.pt' was killed by signal 9"
as_job 7 cp "$TEST_TMP/unit/.metadata" "$MNT/after.pt"
expect_ok "$CKPTFS" drain --job 7 "$MNT"

# Who asks, and for what.
for name in 8123_4 x /8123 8123. ''; do
	run "$CKPTFS" drain --job "$name" "$MNT"
	assert_eq "$RC" 2 "$OUT"
	assert_contains "$OUT" "--job wants a key as \`ckptfs status\` shows it, or the number of a Slurm job, not '$name'"
done
run "$CKPTFS" drain --timeout x "$MNT"
assert_eq "$RC" 2 "$OUT"
run "$CKPTFS" drain --nonsense "$MNT"
assert_eq "$RC" 2 "$OUT"
run "$CKPTFS" drain
assert_eq "$RC" 2 "$OUT"
expect_fail "$CKPTFS" drain "$TEST_TMP"
assert_contains "$OUT" "is not on a ckptfs mount"
umount_ckptfs

mount_ckptfs -o ro
expect_ok "$CKPTFS" drain "$MNT"
umount_ckptfs
mount_ckptfs
kill9_and_reaped "$(daemon_pid)" 10
expect_fail "$CKPTFS" drain "$MNT"
assert_contains "$OUT" "the daemon of $MNT is not running"
umount_ckptfs
