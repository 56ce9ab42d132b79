# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests of files that are published whole; source it after lib.sh. Their programs are in Python, with units.py.

. "$SRC/tests/fs/faults.bash"

export PYTHONPATH=$SRC/tests/units PYTHONDONTWRITEBYTECODE=1
GATE= # the filesystem that gate_close freezes and gate_open thaws

# gated_fs SIZE_MB DIR: mounts a new ext4 at DIR, whose storage can be shut off. Behind a closed gate goes on what
# memory serves, names and cached pages; what needs the storage waits: fsync, O_DIRECT. Its device is $LOOP_DEV.
# It has no journal, whose commits would hold up names too. The storage is a file on another ext4, which freezes.
gated_fs() {
	local size_mb=$1 dir=$2
	loop_fs ext4 $((size_mb + 32)) "$TEST_TMP/.gate"
	expect_ok mount -o remount,nobarrier,noatime "$TEST_TMP/.gate"
	GATE=$TEST_TMP/.gate
	mkdir -p "$dir" || die "cannot make $dir"
	truncate -s "${size_mb}M" "$GATE/disk" || die "no image of $size_mb MB"
	LOOP_DEV=$(losetup -f --show "$GATE/disk") || skip "no loop device"
	_loops+=("$LOOP_DEV")
	on_exit gate_open
	expect_ok mkfs.ext4 -q -F -O ^has_journal -N 8192 "$LOOP_DEV"
	mount "$LOOP_DEV" "$dir" || skip "cannot mount ext4"
	_gate_warm
}

# What names need is in memory from here on; a host that lends its memory elsewhere forgets it within seconds.
_gate_warm() {
	dd if="$LOOP_DEV" of=/dev/null bs=1M 2>/dev/null || die "cannot read $LOOP_DEV"
}

gate_close() {
	_gate_warm
	expect_ok fsfreeze -f "$GATE"
}

gate_open() {
	fsfreeze -u "$GATE" 2>/dev/null
}

# program [ARGS]: runs the Python program on standard input, which begins with `from units import *`.
program() {
	cat >"$TEST_TMP/program.py"
	MNT=$MNT BACK=$BACK GATE=$GATE LOOP_DEV=$LOOP_DEV run "$PYTHON" -u "$TEST_TMP/program.py" "$@"
	[ "$RC" != 77 ] || [ -z "$GATE" ] || put_off "the kernel wrote back, or forgot, what names need while the gate was closed"
	[ "$RC" = 0 ] || die "exit status $RC: $PYTHON -u $TEST_TMP/program.py $*"$'\n'"$OUT"
	[ -z "$OUT" ] || printf '%s\n' "$OUT"
}

# nothing_pending: is every save over?
nothing_pending() {
	status_is "not s['pending']"
}

# all_published: waits for that.
all_published() {
	wait_until 30 nothing_pending
}
