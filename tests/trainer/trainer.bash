# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the tests of the example trainer have in common; source it after lib.sh.

trainer=${BUILD:?}/tests/trainer/trainer
ELEMENTS=200000
TRAINER_ARGS=() # of the runs in the mount, besides

# plain_weights STEPS: sets WEIGHTS to what an uninterrupted run on a plain directory ends with.
plain_weights() {
	mkdir "$TEST_TMP/plain" || die "no directory"
	WEIGHTS=$("$trainer" --plain --steps "$1" --elements "$ELEMENTS" --keep 10 "$TEST_TMP/plain" | tail -n 1)
	[[ $WEIGHTS == weights*"after step $1" ]] || die "the plain run: $WEIGHTS"
}

# The number of the newest checkpoint on the backing, 0: none. Each of them verifies, but not while it is being removed.
newest_committed() {
	local newest

	newest=$(find "$BACK" -maxdepth 2 -name .ckptfs-commit.json -path '*/step-*' | sed 's/.*step-//; s|/.*||' | sort -n | tail -n 1)
	[ -z "$newest" ] || wait_until 30 "$CKPTFS" verify "$BACK"
	NEWEST=${newest:-0}
}

# killed_and_resumed WHOM STEPS N: N times a run of so many steps is killed at a random instant, the trainer or its daemon, and
# goes on; at the end the weights are those of the uninterrupted one.
killed_and_resumed() {
	local whom=$1 steps=$2 n=$3 pid resumed i told=$TEST_TMP/trainer.out

	for ((i = 0; i < n; i++)); do
		newest_committed
		: >"$told"
		RANK=0 WORLD_SIZE=1 "$trainer" "${TRAINER_ARGS[@]}" --steps "$steps" --elements "$ELEMENTS" --keep 2 "$MNT" >"$told" 2>"$told.err" &
		pid=$!
		wait_until 30 grep -qE "^saved step|^weights" "$told"
		read -rt "0.$((RANDOM % 400 + 100))" <> <(:) # an instant that nothing tells
		if [ "$whom" = trainer ]; then
			kill -KILL "$pid" 2>/dev/null
			wait "$pid" 2>/dev/null
		else
			kill -KILL "$(daemon_pid)"
			wait "$pid" 2>/dev/null
			[ $? -lt 128 ] || die "the trainer did not survive: $(cat "$told.err")"
			umount -l "$MNT"
			mount_again
		fi
		resumed=$(sed -n 's/^resumed step //p' "$told")
		[ "${resumed:-0}" -ge "$NEWEST" ] || die "step $NEWEST was committed, and it resumed step '$resumed'"
	done
	got=$(RANK=0 WORLD_SIZE=1 "$trainer" "${TRAINER_ARGS[@]}" --steps "$steps" --elements "$ELEMENTS" --keep 2 "$MNT" | tail -n 1)
	assert_eq "$got" "$WEIGHTS" "weights after $n kills of the $whom"
}

# each_killed_and_resumed STEPS N: the trainer N times, then its daemon half as often, on a new mount.
each_killed_and_resumed() {
	plain_weights "$1"
	mount_ckptfs -o host_cache_size=64M
	killed_and_resumed trainer "$1" "$2"
	umount_ckptfs
	rm -rf "${BACK:?}"/step-*
	mount_again
	killed_and_resumed daemon "$1" $(($2 / 2))
	umount_ckptfs
}

mount_again() {
	expect_ok "$CKPTFS" mount -o "host_cache_size=64M" "$BACK" "$MNT"
}
