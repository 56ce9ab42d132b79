# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Checkpoints of many files, of which the saves are cut off; source it after crash.bash.

EXCHANGES=1  # can two names be exchanged? Else one is absent between two renames, until that is recovered.
COMMITTED=() # versions in mode new that `ckptfs wait` has waited for

# save_checkpoints MODE [COUNT]: a program that saves, as checkpoints.py does, until it cannot; pid $!.
save_checkpoints() {
	local mode=$1
	shift
	: "${FIRST[$mode]:=1}" "${PROMISED[$mode]:=0}"
	CKPTFS=$CKPTFS setsid timeout 120 python3 "$SRC/tests/crash/checkpoints.py" save "$MNT" "$mode" "${FIRST[$mode]}" \
		"$(_log "$mode")" "$@" >"$TEST_TMP/out.$mode" 2>&1 &
	SAVERS+=("$!")
	disown # a killed one is not worth a line
}

# check_checkpoints DIR MODE: what is there is whole, verifies on the bare backing, and has what was promised. Sets FOUND.
check_checkpoints() {
	local dir=$1 mode=$2 path
	run timeout 60 python3 "$SRC/tests/crash/checkpoints.py" check "$dir" "$mode"
	[ "$RC" = 0 ] || die "$dir after a cut at $POINT: $OUT"
	FOUND=$OUT
	if [ "$mode" = new ]; then
		local version
		for version in ${COMMITTED[@]+"${COMMITTED[@]}"}; do
			[[ " $FOUND " == *" $version "* ]] || die "$dir after a cut at $POINT: $FOUND, but $version was promised"
		done
	else
		[ "${FOUND:-0}" -ge "${PROMISED[$mode]}" ] ||
			die "$dir after a cut at $POINT: $FOUND, but ${PROMISED[$mode]} was promised"
	fi
	for path in "$BACK"/step-*; do
		[ ! -e "$path" ] || expect_ok "$CKPTFS" verify "$path"
	done
}

# check_new_round MODE...: after a cut, on the backing and in the next mount, which the test's mount_again makes.
check_new_round() {
	local mode
	for mode; do
		[ "$mode" != new ] || mapfile -t -O "${#COMMITTED[@]}" COMMITTED < <(sed '/^cut/,$d; /^begun/d' "$(_log new)")
		_read_log "$mode"
		[ -z "$EXCHANGES" ] || check_checkpoints "$BACK" "$mode"
	done
	mount_again
	for mode; do
		check_checkpoints "$MNT" "$mode"
		check_checkpoints "$BACK" "$mode"
		echo "$POINT: $mode is ${FOUND:-absent}, ${PROMISED[$mode]} was promised last, $((FIRST[$mode] - 1)) begun"
		if [ "$mode" != new ] && [ -n "$FOUND" ]; then
			PROMISED[$mode]=$FOUND # it will not go away any more
		fi
		# What came between the note of the cut and the cut is not counted as begun.
		[ "${FOUND##* }" -lt "${FIRST[$mode]}" ] 2>/dev/null || FIRST[$mode]=$((${FOUND##* } + 1))
	done
}

# kill_rounds COUNT: the daemon is killed that many times. mount_again mounts.
kill_rounds() {
	local i daemon modes mode
	for ((i = 0; i < $1; i++)); do
		modes=(new over late again)
		[ $((i % 5)) = 4 ] || modes=("${modes[i % 4]}")
		daemon=$(daemon_pid) || exit
		cut_at "after:$((RANDOM * 10))" none "kill:$daemon"
		for mode in "${modes[@]}"; do
			save_checkpoints "$mode"
		done
		was_cut
		wait_until 20 _gone "$daemon"
		end_savers
		check_new_round "${modes[@]}"
	done
}

# check_recovered: nothing that was decided is left undone, and fsck removes the rest.
check_recovered() {
	run timeout 120 "$CKPTFS" fsck --dry-run "$BACK"
	[[ $OUT != *decided* ]] || die "$OUT"
	check_leavings
	assert_eq "$(find "$BACK/.ckptfs/txn" -type f)" "" "records left"
}
