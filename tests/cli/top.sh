#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# top shows what a mount does, on a terminal, as lines and as JSON: also while the mount hangs, and until the daemon is
# gone, which it says.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
needs python3
export TERM=xterm

# top STATUS ARGS...: exit status of `ckptfs top ARGS`. Sets $STDOUT, $STDERR.
top() {
	local status=$1
	shift
	timeout 30 "$CKPTFS" top "$@" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of top $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDOUT=$(cat "$TEST_TMP/.stdout")
	STDERR=$(cat "$TEST_TMP/.stderr")
}

# lines: how many were printed.
lines() {
	printf '%s\n' "$STDOUT" | wc -l
}

# save FILE: a process has it open, and has written to it, until the fifo "hold" is closed. Sets $WRITER.
save() {
	rm -f "$TEST_TMP/hold"
	mkfifo "$TEST_TMP/hold"
	python3 -c 'import sys; f = open(sys.argv[1], "wb", 0); f.write(b"data"); open(sys.argv[2]).read()' \
		"$1" "$TEST_TMP/hold" 9>&- &
	WRITER=$!
	exec 9>"$TEST_TMP/hold"
}

# saved: ends it.
saved() {
	exec 9>&-
	wait "$WRITER" || die "the writer failed"
}

# looks EXPRESSION: of `x`, the list of the objects in $STDOUT.
looks() {
	value "$1" "[$(printf '%s\n' "$STDOUT" | paste -sd,)]"
}

# --- usage ---

top 2 a b
assert_contains "$STDERR" "give one path in a mount, or none"
top 2 --bogus a
assert_contains "$STDERR" "usage: ckptfs top [--json] [--interval S] [--count N] [MOUNTPOINT]"
for interval in 0 0.05 -1 x "" nan 1e9; do
	top 2 --interval "$interval" a
	assert_contains "$STDERR" "--interval wants seconds, at least 0.1"
done
for count in 0 -1 x "" 1.5; do
	top 2 --count "$count" a
	assert_contains "$STDERR" "--count wants a number of looks"
done
top 0 --help
assert_contains "$STDOUT" "usage: ckptfs top"
top 1 "$TEST_TMP"
assert_contains "$STDERR" "is not on a ckptfs mount"

# --- lines and JSON ---

mount_ckptfs
mkdir "$MNT/dir"
top 0 -n 1 "$MNT/dir"
[[ $STDOUT =~ ^[0-9:]{8}"  absorbed -  flushed -  cache dirty 0 % flying 0 % clean 0 % free 100 %  stalls 0 "\
"waiting 0  pending 0  failures 0"$ ]] || die "$STDOUT"
top 0 --count 3 --interval 0.1 "$MNT"
assert_eq "$(lines)" 3
assert_contains "$STDOUT" "absorbed 0 B/s  flushed 0 B/s"
top 0 --json --count 2 --interval 0.1 "$MNT"
assert_eq "$(looks 'len(x), sorted(x[0])')" "(2, ['absorbed_bytes_per_s', 'cache', 'captured_bytes_per_s', 'captures', 'failures', 'flush', \
'flushed_bytes_per_s', 'message', 'mountpoint', 'pending', 'requests', 'sessions', 'time_ns'])"
assert_eq "$(looks '[(l["absorbed_bytes_per_s"], l["flushed_bytes_per_s"], l["message"]) for l in x]')" \
	"[(None, None, None), (0.0, 0.0, None)]"
assert_eq "$(looks 'x[0]["mountpoint"], 0 < (x[1]["time_ns"] - x[0]["time_ns"]) < 30e9')" "('$MNT', True)"

# What is written meanwhile: taken in and flushed.
rm "$TEST_TMP/.stdout"
timeout 60 "$CKPTFS" top --json --count 3 --interval 1 "$MNT" >"$TEST_TMP/.stdout" &
watcher=$!
wait_until 10 test -s "$TEST_TMP/.stdout"
dd if=/dev/zero of="$MNT/x.pt" bs=1M count=20 conv=fsync status=none
wait "$watcher" || die "top failed"
STDOUT=$(cat "$TEST_TMP/.stdout")
assert_eq "$(looks 'sum(l["absorbed_bytes_per_s"] for l in x[1:]) > 10 << 20')" True
assert_eq "$(looks 'sum(l["flushed_bytes_per_s"] for l in x[1:]) > 10 << 20')" True

# Saves that are not published yet.
save "$MNT/y.pt"
top 0 -n 1 "$MNT"
assert_contains "$STDOUT" "  pending 1  failures 0"
[[ $STDOUT =~ $'\n'"  open "\ +[0-9]+" s "\ +[0-9.]+" "[KM]?i?B"  y.pt" ]] || die "$STDOUT"
top 0 --json -n 1 "$MNT"
assert_eq "$(looks '[(p["path"], p["state"]) for p in x[0]["pending"]]')" "[('y.pt', 'open')]"
saved

# --- on a terminal ---

cat >"$TEST_TMP/terminal.py" <<'END'
import fcntl, os, pty, signal, struct, subprocess, sys, termios

MNT = sys.argv[1]

def watch(end, *args, rows=24, columns=80):
	"""What a terminal gets of a run that `end` brings to its end: a key, a signal, or None."""
	master, slave = pty.openpty()
	fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
	before = termios.tcgetattr(slave)
	process = subprocess.Popen([os.environ["CKPTFS"], "top", *args, MNT], stdin=slave, stdout=slave, stderr=slave)
	seen = b""
	while b"\033[J" not in seen:
		seen += os.read(master, 4096)
	if isinstance(end, bytes):
		os.write(master, end)
	elif end:
		process.send_signal(end)
	assert process.wait(30) == 0, (end, process.returncode)
	assert termios.tcgetattr(slave) == before, "the terminal is not as it was"
	os.set_blocking(master, False)
	try:
		while part := os.read(master, 65536):
			seen += part
	except (BlockingIOError, OSError):
		pass
	os.close(slave)
	os.close(master)
	assert seen.startswith(b"\033[?1049h\033[?25l") and seen.endswith(b"\033[?25h\033[?1049l"), seen
	return seen

for end in b"q", b"Q", b"xq", signal.SIGINT, signal.SIGTERM:
	watch(end, "--interval", "600")
seen = watch(None, "-n", "2", "-i", "0.1")
for word in b"absorbed", b"cache      [", b"flush ", b"stalls ", b"failures   0", b"1 not yet published", b"q quits", \
		b"...", b"end.pt":
	assert word in seen, (word, seen)
assert seen.count(b"\033[J") == 2, seen
seen = watch(b"q", "-i", "600", rows=5, columns=20)
assert b"failures" not in seen, seen
for line in seen.split(b"\033[H")[-1].split(b"\033[J")[0].split(b"\r\n"):
	assert len(line.replace(b"\033[K", b"")) <= 20, line
END
long=$(printf 'n%.0s' {1..100})
save "$MNT/${long}end.pt"
expect_ok timeout 60 python3 "$TEST_TMP/terminal.py" "$MNT"
saved

# --- a daemon without an answer, and none ---

daemon=$(daemon_pid)
kill -STOP "$daemon"
top 1 -n 1 "$MNT"
assert_contains "$STDERR" "the daemon of $MNT (pid $daemon) does not answer"
top 1 --json -n 1 "$MNT"
assert_eq "$(looks 'len(x), sorted(x[0])')" "(1, ['message', 'mountpoint', 'time_ns'])"
assert_eq "$(looks '"does not answer" in x[0]["message"]')" True
rm "$TEST_TMP/.stdout" "$TEST_TMP/.stderr"
timeout 60 "$CKPTFS" top -i 0.1 "$MNT" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr" &
watcher=$!
wait_until 20 grep -q "does not answer" "$TEST_TMP/.stderr"
kill -CONT "$daemon"
wait_until 20 grep -q "absorbed" "$TEST_TMP/.stdout"
umount_ckptfs
wait "$watcher"
assert_eq $? 1 "exit status after an unmount"
assert_contains "$(cat "$TEST_TMP/.stderr")" "$MNT is not mounted any more. Every file that was closed before is on the"

mount_ckptfs
rm "$TEST_TMP/.stdout" "$TEST_TMP/.stderr"
"$CKPTFS" top --json -i 0.1 "$MNT" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr" &
watcher=$!
wait_until 20 grep -q "absorbed" "$TEST_TMP/.stdout"
kill9_and_reaped "$(daemon_pid)" 10
wait "$watcher"
assert_eq $? 1 "exit status after the daemon was killed"
assert_contains "$(cat "$TEST_TMP/.stderr")" "the daemon of $MNT is not running"
assert_contains "$(tail -n 1 "$TEST_TMP/.stdout")" "the daemon of $MNT is not running"
umount_ckptfs

# A mount without a cache.
mount_ckptfs -o ro
top 0 -n 1 "$MNT"
assert_contains "$STDOUT" "absorbed -  flushed -"
top 0 --json -n 2 -i 0.1 "$MNT"
assert_eq "$(looks '[(l.get("cache"), l["absorbed_bytes_per_s"]) for l in x]')" "[(None, None), (None, 0.0)]"
script -qec "$CKPTFS top -n 1 $MNT" /dev/null </dev/null >"$TEST_TMP/.stdout"
assert_contains "$(cat "$TEST_TMP/.stdout")" "none: the mount is read-only"
umount_ckptfs
