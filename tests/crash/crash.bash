# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests that end a daemon, a program or a filesystem in the middle of saves; source it after lib.sh.
# CKPTFS_TEST_SEED=N repeats the choices of a run; the timing is another each time.

. "$SRC/tests/fs/faults.bash"

CUT=$BUILD/tests/helpers/cut
SAVER=$BUILD/tests/helpers/saver
SIZE=$((6 << 20)) # about what each save has
SAVERS=()         # leaders of the process groups of save_on
CUTTER=           # process of cut_at
POINT=
declare -A FIRST=()    # NAME -> the version that the next save has
declare -A PROMISED=() # NAME -> the last version that is there for sure, 0: none
# shellcheck disable=SC2034 # for tests
MODES=(plain sync rename) POINTS=(staged:1 staged:2 filled:65536 filled:3000000 renamed stamped)

SEED=${CKPTFS_TEST_SEED:-$SRANDOM}
RANDOM=$SEED
echo "seed $SEED"

_log() {
	echo "$TEST_TMP/log.${1//\//_}"
}

# save_on NAME MODE [COUNT]: a program that saves $MNT/NAME again and again, as helpers/saver.c does; pid $!.
save_on() {
	local name=$1 mode=$2
	shift 2
	: "${FIRST[$name]:=1}" "${PROMISED[$name]:=0}"
	setsid "$SAVER" save "$MNT/$name" "$SIZE" "${FIRST[$name]}" "$(_log "$name")" "$mode" "$@" \
		>"$TEST_TMP/out.${name//\//_}" 2>&1 &
	SAVERS+=("$!")
	disown # a killed one is not worth a line
}

_cutter_is_ready() {
	grep -q ready "$TEST_TMP/cut"
}

# cut_at POINT NAME ACTION [LOG...]: what helpers/cut.c does with that, as soon as that point is reached.
cut_at() {
	POINT=$1
	: >"$TEST_TMP/cut"
	"$CUT" "$1" "$BACK" "${@:2}" >"$TEST_TMP/cut" 2>&1 &
	CUTTER=$!
	wait_until 10 _cutter_is_ready
}

# was_cut: waits for that.
was_cut() {
	wait "$CUTTER" || die "no cut at $POINT: $(cat "$TEST_TMP/cut" "$TEST_TMP"/out.*)"
}

_group_gone() {
	! kill -0 -- "-$1" 2>/dev/null
}

# end_savers: no process of save_on, nor a child of one, goes on: it would save to the next mount.
end_savers() {
	local pid
	for pid in ${SAVERS[@]+"${SAVERS[@]}"}; do
		kill -9 -- "-$pid" 2>/dev/null
		wait_until 20 _group_gone "$pid"
	done
	SAVERS=()
}

# What was promised and begun since save_on, as its log says.
_read_log() {
	local name=$1 line lost=
	while read -r line; do
		case $line in
		begun*) FIRST[$name]=$((${line#begun } + 1)) ;;
		held*) ;;
		cut) lost=1 ;;
		*) [ -n "$lost" ] || PROMISED[$name]=$line ;;
		esac
	done <"$(_log "$name")"
	: >"$(_log "$name")"
}

# check_whole DIR NAME: DIR/NAME is one of the versions that were saved, whole, and none older than was promised.
# Sets FOUND to it.
check_whole() {
	local dir=$1 name=$2
	run "$SAVER" check "$dir/$name"
	[ "$RC" = 0 ] || die "$dir/$name after a cut at $POINT: $OUT"
	FOUND=${OUT/absent/0}
	[ "$FOUND" -ge "${PROMISED[$name]}" ] ||
		die "$dir/$name after a cut at $POINT: version $FOUND, but ${PROMISED[$name]} was promised"
	[ "$FOUND" -lt "${FIRST[$name]}" ] || die "$dir/$name: version $FOUND was never saved"
	[ "$FOUND" = 0 ] || expect_ok "$CKPTFS" verify "$dir/$name"
}

# check_leavings: fsck removes all that the cuts left.
check_leavings() {
	expect_ok "$CKPTFS" fsck --discard "$BACK"
	assert_eq "$(find "$BACK" -maxdepth 1 -name '.ckptfs-*')" "" "what fsck leaves"
}

# check_round NAME...: checks each name on the backing, and in the next mount, which the test's mount_again makes.
check_round() {
	local name found
	for name; do
		_read_log "$name"
		check_whole "$BACK" "$name"
		echo "$POINT: $name is $FOUND, ${PROMISED[$name]} was promised, $((FIRST[$name] - 1)) begun"
		PROMISED[$name]=$FOUND # it will not go away any more
	done
	# Mostly the next mount finds what this one left; sometimes room is made.
	[ "$(find "$BACK" -maxdepth 1 -name '.ckptfs-*' | wc -l)" -lt 16 ] || check_leavings
	mount_again
	for name; do
		found=${PROMISED[$name]}
		check_whole "$MNT" "$name"
		assert_eq "$FOUND" "$found" "version of $MNT/$name in the next mount"
	done
}
