#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 400
# heavy: check-cluster
# make demo-cluster: it comes to its end, and says what it is to show; it sees a checkpoint that is damaged, and one that should
# not be there; interrupted anywhere it leaves no mount, no directory and no process behind.

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs python3
mkdir "$TEST_TMP/tmp"
export TMPDIR=$TEST_TMP/tmp DEMO_MIB=2 DEMO_STEPS=2

below_tmp() {
	grep -lzF "$TEST_TMP/tmp/" /proc/[0-9]*/cmdline 2>/dev/null
}

none_left() {
	[ -z "$(below_tmp)" ]
}

nothing_left() {
	assert_eq "$(ls -A "$TEST_TMP/tmp")" "" "files left by the demo"
	! grep "$TEST_TMP/tmp" /proc/self/mountinfo || die "a mount left by the demo"
	wait_until 10 none_left
}

expect_ok python3 "$SRC/tests/demo/cluster.py"
assert_contains "$OUT" "8 ranks on 4 nodes have saved step-2"
assert_contains "$OUT" "shows no life"
assert_contains "$OUT" "6 ranks on 3 nodes go on from step "
assert_contains "$OUT" "nothing but whole checkpoints was ever to be seen"
assert_eq "$(grep -c 'reports it after' <<<"$OUT")" 3 "nodes that report it"
nothing_left

# A command that does what SPOIL says to the backing once a node was killed.
export REAL=$CKPTFS SPOIL
cat >"$TEST_TMP/ckptfs" <<'END'
#!/usr/bin/env bash
case "$1 $2" in
"umount --force") cd "${3%/*}/backing/run" && eval "$SPOIL" ;;
esac
exec "$REAL" "$@"
END
chmod +x "$TEST_TMP/ckptfs"

# spoiled SPOIL VERDICT
spoiled() {
	SPOIL=$1
	expect_fail env CKPTFS="$TEST_TMP/ckptfs" python3 "$SRC/tests/demo/cluster.py"
	assert_eq "$RC" 1
	assert_contains "$OUT" "$2"
	nothing_left
}

spoiled 'printf x >>step-1/.metadata' "Extra data"
spoiled 'printf xxxx | dd of=step-2/__3_0.distcp bs=1 seek=100 conv=notrunc status=none' "is damaged"
spoiled 'cp -a step-2 step-9' "were committed"

# interrupted SIGNAL STATUS WHEN: sent when the demo prints a line that contains WHEN, it ends the demo with STATUS.
mkfifo "$TEST_TMP/lines"
interrupted() {
	local line seen=''
	# A shell starts what runs in the background with SIGINT ignored; env undoes that.
	env --default-signal=HUP,INT,TERM python3 "$SRC/tests/demo/cluster.py" >"$TEST_TMP/lines" 2>&1 &
	while read -r line; do
		echo "$line"
		if [ -z "$seen" ] && [[ $line == *"$3"* ]]; then
			seen=1
			kill -s "$1" $! || die "the demo has ended before"
		fi
	done <"$TEST_TMP/lines"
	wait $!
	assert_eq $? "$2" "exit status after SIG$1 $3"
	nothing_left
}

interrupted INT 130 "four nodes with"
interrupted TERM 143 "have saved step-1"
interrupted HUP 129 "kill -9"
interrupted INT 130 "go on from"
