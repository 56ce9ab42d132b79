#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# In FLUSH a filesystem is told who goes on, who ends well and who dies, in every way in which a process can, and
# when it cannot be known; and it never waits for that. On a filesystem of the test's own: tests/helpers/fs_fates.c.
#
# needs: root
# timeout: 120

. "${SRC:?}/tests/lib.sh"

needs_fuse
needs setpriv unshare nsenter
[ "$TEST_PRIVATE" = 1 ] || skip "no namespaces of its own, to mount another /proc in"
(( 0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status) >> 19 & 1 )) || skip "no CAP_SYS_PTRACE"

FATES=$BUILD/tests/helpers/fs_fates
WRITER=$TEST_TMP/writer # other users reach it there
cp "$BUILD/tests/helpers/writer" "$WRITER" || die "no writer"
ulimit -c unlimited

DIR=    # the filesystem of the last `serve`, its log, how many lines of it were seen, its process
LOG=
SEEN=0
SERVER=

# serve NAME [COMMAND...]: COMMAND DIR LOG mounts the filesystem; default fs_fates.
serve() {
	DIR=$TEST_TMP/$1 LOG=$TEST_TMP/$1.log SEEN=0
	shift
	[ $# != 0 ] || set -- "$FATES"
	mkdir "$DIR" || die "cannot make $DIR"
	"$@" "$DIR" "$LOG" &
	SERVER=$!
	wait_until 10 test -e "$LOG"
}

# No FLUSH came that was not expected; and the server, who is never stuck, ends.
end_serving() {
	expect_ok umount "$DIR"
	wait_until 10 _gone "$SERVER"
	assert_eq "$(wc -l <"$LOG")" "$SEEN" "number of FLUSHes"
}

nr_seen() {
	[ "$(wc -l <"$LOG")" -ge "$1" ]
}

# seen KIND VERDICT...: the next FLUSHes, of the file KIND, were judged so.
seen() {
	local kind=$1 got want
	shift
	wait_until 10 nr_seen $((SEEN + $#))
	got=$(tail -n +$((SEEN + 1)) "$LOG")
	want=$(printf "$kind %s\n" "$@")
	assert_eq "$got" "$want" "verdicts on $kind in $LOG"
	SEEN=$((SEEN + $#))
}

# as PREFIX...: the next writers are started by this command.
PREFIX=()
as() {
	PREFIX=("$@")
}

# write_as KIND: a writer of that kind. It must not hang.
write_as() {
	run ${PREFIX[@]+"${PREFIX[@]}"} timeout -s KILL 20 "$WRITER" "$1" "$DIR/$1"
	[ "$RC" != 99 ] || die "writer $1: $OUT"
}

# judged KIND VERDICT...: what a writer of that kind is judged.
judged() {
	write_as "$1"
	seen "$@"
}

# Kernels differ in whether PR_SET_DUMPABLE hides from the same user how a process ends.
judged_or_hidden() {
	write_as "$1"
	wait_until 10 nr_seen $((SEEN + 1))
	if [ "$(tail -n 1 "$LOG")" = "$1 exit-unknown 0" ]; then
		seen "$1" "exit-unknown 0"
	else
		seen "$@"
	fi
}

has_state() {
	[[ $(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status") == $2* ]]
}

# start_waiting KIND: a writer that waits for the test, pid $WAITING.
start_waiting() {
	rm -f "$TEST_TMP/ready"
	"$WRITER" "$1" "$DIR/$1" >"$TEST_TMP/ready" &
	WAITING=$!
	wait_until 10 grep -q ready "$TEST_TMP/ready"
}

# start_ending KIND: a lone thread ends, whose FLUSH waits for the stopped server.
start_ending() {
	start_waiting "$1"
	kill -STOP "$SERVER"
	wait_until 10 has_state "$SERVER" T
	kill -USR1 "$WAITING"
}

# The number of the system call that it waits in: execve, on x86_64 or elsewhere.
is_in_execve() {
	grep -qE '^(59|221) ' "/proc/$1/syscall"
}

# What is judged alike by whoever may read nothing but statm.
never_by_status() {
	judged close "alive 0"
	judged exec "alive 0"
	judged exec-thread "alive 0"
	judged fork-close "alive 0" "alive 0"
	judged fork-exec "alive 0" "alive 0"
	judged system-cloexec "alive 0" "alive 0"
	judged spawn-cloexec "alive 0" "alive 0"
}

by_status() {
	judged exit0 "exited-ok 0"
	judged exit1 "died 1"
	judged sigkill "died -9"
	judged sigterm "died -15"
	judged sigsegv "died -11"
	judged core "died -6"
	judged threads-exit3 "died 3"
	judged threads-sigkill "died -9"
	judged leaderless-exit0 "exited-ok 0"
	judged leaderless-sigkill "died -9"
	judged exec-kept "exited-ok 0"
	judged exec-kept-fails "died 1"
	judged fork-exit0 "exited-ok 0" "alive 0"
	judged fork-sigkill "died -9" "alive 0"
	judged system "exited-ok 0" "alive 0"
	judged system-fails "died 5" "alive 0"
	judged spawn "exited-ok 0" "alive 0"
}

# An end is seen, but not which.
by_end_only() {
	local kind
	for kind in exit0 exit1 sigkill threads-exit3 leaderless-sigkill nodump-exit0 nodump-sigkill exec-kept; do
		judged "$kind" "exit-unknown 0"
	done
	judged fork-exit0 "exit-unknown 0" "alive 0"
	judged parent-killed "exit-unknown 0" "exit-unknown 0"
}

# --- root ---

serve root
never_by_status
by_status
judged nodump-exit0 "exited-ok 0"
judged nodump-sigkill "died -9"
judged parent-killed "died -9" "exited-ok 0"
as as_user 1300
never_by_status
by_status
judged parent-killed "died -9" "exited-ok 0"
# shellcheck disable=SC2016 # for the inner shell, the first process of a namespace that is seen from here
as unshare -p -f --kill-child sh -c '"$@"; :' sh
never_by_status
by_status
as

start_waiting hold
kill -HUP "$WAITING"
seen hold "died -1"
start_waiting wait-exit0
kill -USR1 "$WAITING"
seen wait-exit0 "exited-ok 0"

# A thread ends alone in a process that is stopped, killed, or inside execve and waits for the thread.
start_ending lone-thread
wait_until 10 has_state "$WAITING" T
kill -CONT "$SERVER"
seen lone-thread "exited-ok 0"
kill -CONT "$WAITING"
wait "$WAITING"
start_ending lone-thread
wait_until 10 has_state "$WAITING" T
kill -KILL "$WAITING"
kill -CONT "$SERVER"
seen lone-thread "died -9"
start_ending lone-thread-exec
wait_until 10 is_in_execve "$WAITING"
kill -CONT "$SERVER"
seen lone-thread-exec "exited-ok 0"
expect_ok wait "$WAITING"
end_serving

# --- a user ---

serve user "$FATES" -u 1300
as as_user 1300
never_by_status
by_status
judged_or_hidden nodump-exit0 "exited-ok 0"
judged_or_hidden nodump-sigkill "died -9"
as as_user 1301
never_by_status
by_end_only
end_serving

# --- root in a container: without CAP_SYS_PTRACE ---

WITHOUT=(setpriv --bounding-set=-sys_ptrace)
serve container "${WITHOUT[@]}" "$FATES"
as "${WITHOUT[@]}"
never_by_status
by_status
judged_or_hidden nodump-sigkill "died -9"
as # with more capabilities than the daemon's
never_by_status
by_end_only
as as_user 1300
never_by_status
by_end_only
end_serving

# --- /proc hides the processes of other users ---

expect_ok mount -t proc -o hidepid=invisible proc /proc
serve hidden "$FATES" -u 1300
as as_user 1300
never_by_status
by_status
as as_user 1301
judged close "invisible 0"
judged exec "invisible 0"
judged exit0 "invisible 0"
judged sigkill "invisible 0"
end_serving
serve unhidden
never_by_status
by_status
end_serving
expect_ok umount /proc

# --- pid namespaces ---

serve inner unshare -p -f --kill-child "$FATES"
as
judged close "invisible 0" # pid 0
judged exec "invisible 0"
judged sigkill "invisible 0"
# Inside, ids are not those of the /proc that is here: the writer has that of this process.
sleep 1000 &
# shellcheck disable=SC2016 # for the inner shell
as nsenter --pid="/proc/$SERVER/ns/pid_for_children" \
	sh -c 'echo $(($1 - 2)) >/proc/sys/kernel/ns_last_pid; shift; "$@"; :' sh $!
[ ! -w /proc/sys/kernel/ns_last_pid ] || judged exit1 "invisible 0"
end_serving
