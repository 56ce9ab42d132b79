# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests of failing backings; source it after lib.sh.

FS_WAIT=$BUILD/tests/helpers/fs_wait
declare -A WAITER=() # OP -> pid of a process of start_op

_stopped() {
	grep -q '^State:.*T' "/proc/$1/status"
}

# start_op [-a] OP: a process that is about to do OP in a directory $MNT/OP of its own (helpers/fs_wait.c).
start_op() {
	local args=() op
	if [ "$1" = -a ]; then
		args=(-a)
		shift
	fi
	op=$1
	"$FS_WAIT" ${args[@]+"${args[@]}"} "$op" "$MNT/$op" >"$TEST_TMP/result.$op" 2>&1 &
	WAITER[$op]=$!
	wait_until 10 _stopped "${WAITER[$op]}"
}

# go OP...: let them.
go() {
	local op
	for op; do
		kill -CONT "${WAITER[$op]}"
	done
}

# result OP: what it printed: ok, or an errno.
result() {
	cat "$TEST_TMP/result.$1"
}

# status_of EXPRESSION [MOUNTPOINT]: evaluated in Python with s, the mount's status as JSON.
status_of() {
	local json
	json=$(timeout 5 "$CKPTFS" status --json "${2-$MNT}") || return 1
	"${PY[@]}" -c 'import json, sys; s = json.loads(sys.argv[1]); print(eval(sys.argv[2]))' "$json" "$1"
}

# status_is EXPRESSION: is it true?
status_is() {
	[ "$(status_of "$1")" = True ]
}

# waits_in N: N requests wait for the backing.
waits_in() {
	status_is "s['requests']['in_flight'] >= $1"
}

# waits_as OP...: for each a request of that name (a beginning is enough) has waited for a second.
waits_as() {
	local op
	for op; do
		status_is "any(w['op'].startswith('$op') for w in s['requests']['waiting'])" || return
	done
}

# failures_of EXPRESSION: evaluated in Python with f, the list of failures.json (in $CONTROL_DIR, where that is set).
failures_of() {
	"${PY[@]}" -c 'import json, sys; f = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' \
		"${CONTROL_DIR-$MNT/.ckptfs}/failures.json" "$1"
}

# assert_gone_soon PID...: each is gone within the second that the contract gives (3 here: a busy machine).
assert_gone_soon() {
	local pid
	for pid; do
		wait_until 3 _gone "$pid"
	done
}

_serve() {
	local kind=$1 dir=$2 point=$3
	needs_root
	needs_fuse
	needs "$kind"
	mkdir -p "$dir" "$point"
	"$kind" -f "$dir" "$point" >"$TEST_TMP/server.log" 2>&1 &
	SERVER=$!
	disown "$SERVER" # the shell is not to say how it ended: the last line is for who skips
	on_exit kill -9 "$SERVER"
	wait_until 10 mountpoint -q "$point"
}

# bindfs_mount DIR POINT, mergerfs_mount DIR POINT: DIR seen at POINT through another FUSE filesystem, whose pid
# is $SERVER: it can be stopped and killed.
bindfs_mount() {
	_serve bindfs "$@"
}

mergerfs_mount() {
	_serve mergerfs "$@"
}

# name_user UID: fusermount3 refuses a user without a name.
name_user() {
	getent passwd "$1" >/dev/null && return
	[ "$TEST_PRIVATE" = 1 ] || skip "user $1 has no name, which fusermount3 needs"
	{ cat /etc/passwd && echo "tester:x:$1:$1::/:/bin/false"; } >"$TEST_TMP/.passwd"
	mount --bind "$TEST_TMP/.passwd" /etc/passwd || skip "cannot give user $1 a name"
}
