# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Verbs for tests in bash: `. "$SRC/tests/lib.sh"`, after which the test runs in the environment that tests/run
# gives it (tests/README.md). Nothing here sets -e: say `expect_ok CMD`, or check $RC.
# A verb that ends the test (die, skip, assert_*) ends only the subshell when called inside $( ) or a pipe.

set -u

: "${SRC:?start this test with tests/run}" "${BUILD:?}" "${CKPTFS:?}" "${TEST_TMP:?}" "${TEST_PRIVATE:?}"

OUT=          # what the last run, expect_ok or expect_fail printed, stderr included
RC=0          # its exit status
# shellcheck disable=SC2034 # for tests
BACK=         # backing directory and mount point of the last mount_ckptfs
MNT=
LOOP_DEV=     # the device of the last loop_fs
PYTHON=/usr/bin/python3    # what PATH has may take several times as long to start
[ -x "$PYTHON" ] || PYTHON=python3
PY=("$PYTHON" -I -S)       # for expressions, which need no packages
_hooks=()     # on_exit commands, in the order given
_loops=()     # loop devices to detach

# --- ending a test ---

# die MSG: the test has failed.
die() {
	printf 'failed: %s\n' "$*" >&2
	local depth=0 line
	while line=$(caller "$depth"); do
		printf '    at line %s\n' "$line" >&2
		depth=$((depth + 1))
	done
	exit 1
}

# Else the test would go on after a verb that is none. It runs in a process of its own, which cannot end the test otherwise.
command_not_found_handle() {
	printf 'failed: no command: %s\n' "$*" >&2
	kill -TERM $$
}

# skip REASON: the test cannot be run here.
skip() {
	printf '%s\n' "$*"
	exit 77
}

# put_off REASON: other tests were in the way. It is run once more, alone, at the end, and skipped if that does not help.
put_off() {
	printf '%s\n' "$*"
	exit 75
}

# on_exit CMD...: run CMD when the test ends, however it ends, unless the runner kills it (time-out). The latest
# runs first. What the runner cleans up anyway (processes, mounts, files in TEST_TMP) needs none.
on_exit() {
	_hooks+=("$(printf '%q ' "$@")")
}

_mounts_below() {
	local path
	while read -r _ _ _ _ path _; do
		path=$(printf '%b' "$path")
		if [[ $path/ == "$1"/* ]]; then
			printf '%s %s\n' "${#path}" "$path"
		fi
	done </proc/self/mountinfo | tac | sort -s -rn | cut -d' ' -f2-
}

_unmount() {
	timeout 5 umount -i -c "$1" 2>/dev/null || umount -i -c -l "$1" 2>/dev/null ||
		fusermount3 -u -z "$1" 2>/dev/null
}

_unmount_below() {
	local path
	while IFS= read -r path; do
		_unmount "$path"
	done < <(_mounts_below "$1")
}

# Thaw first (a frozen filesystem blocks all the rest), then the test's own hooks, then mounts, then loop devices.
_at_exit() {
	local rc=$? device path i
	trap '' HUP INT TERM
	for device in ${_loops[@]+"${_loops[@]}"}; do
		while read -r path; do
			fsfreeze -u "$path" 2>/dev/null
		done < <(findmnt -rn -o TARGET -S "$device")
	done
	for ((i = ${#_hooks[@]} - 1; i >= 0; i--)); do
		eval "${_hooks[i]}"
	done
	_unmount_below "$TEST_TMP"
	for device in ${_loops[@]+"${_loops[@]}"}; do
		losetup -d "$device" 2>/dev/null
	done
	exit "$rc"
}
trap _at_exit EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# --- what the machine must have ---

# needs_root: skip unless root. (A header line `# needs: root` does the same.)
needs_root() {
	[ "$(id -u)" = 0 ] || skip "needs root"
}

# needs CMD...: skip unless each of these commands is there.
needs() {
	local command
	for command; do
		command -v "$command" >/dev/null || skip "needs the command $command"
	done
}

# needs_fuse: skip where /dev/fuse cannot be opened, or an ordinary user has no fusermount3.
needs_fuse() {
	(: <>/dev/fuse) 2>/dev/null || skip "cannot open /dev/fuse"
	[ "$(id -u)" = 0 ] || needs fusermount3
}

# amount SHORT LONG: prints SHORT; in check-long (tests/README.md), LONG.
amount() {
	if [ -n "${CKPTFS_TEST_LONG-}" ]; then printf '%s\n' "$2"; else printf '%s\n' "$1"; fi
}

# --- running and asserting ---

# run CMD...: run it in this shell; sets $OUT and $RC, never fails. A daemon that CMD starts may live on.
run() {
	local file=$TEST_TMP/.out.$BASHPID
	RC=0
	"$@" >"$file" 2>&1 || RC=$?
	{ OUT=$(<"$file"); } 2>/dev/null
	rm -f "$file"
	return 0
}

# expect_ok CMD...: it must exit 0. Sets $OUT.
expect_ok() {
	run "$@"
	[ "$RC" = 0 ] || die "exit status $RC: $*"$'\n'"$OUT"
}

# expect_fail CMD...: it must exit with a status of its own that is not 0 (a signal is a crash). Sets $OUT, $RC.
expect_fail() {
	run "$@"
	[ "$RC" != 0 ] || die "should have failed: $*"$'\n'"$OUT"
	if [ "$RC" -gt 128 ] && [ "$RC" -le 192 ]; then
		die "ended by signal $((RC - 128)): $*"$'\n'"$OUT"
	fi
}

# assert_eq A B [MSG]: A is what was got, B what was wanted.
assert_eq() {
	[ "$1" = "$2" ] || die "${3:-values differ}"$'\n'"got:    $1"$'\n'"wanted: $2"
}

# assert_contains TEXT SUB [MSG]
assert_contains() {
	[[ $1 == *"$2"* ]] || die "${3:-text lacks} '$2'"$'\n'"$1"
}

# --- waiting: the only way; tests do not sleep ---

# wait_until SECONDS CMD...: until CMD (a command or function, run in this shell) succeeds; else the test fails.
# CMD's output is dropped. SECONDS is whole; be generous, it is only waited out when the test fails. A slow machine
# (tests/run --slow) gets more of them.
wait_until() {
	local limit=$(($1 * ${TEST_SLOW:-1})) end tries=0
	shift
	end=$((${EPOCHREALTIME/[.,]/} + limit * 1000000))
	until "$@" >/dev/null 2>&1; do
		[ "${EPOCHREALTIME/[.,]/}" -lt "$end" ] || die "not within $limit s: $*"
		# What has not come soon is asked for less often: asking takes a program or two each time.
		if ((tries++ < 10)); then sleep 0.05; else sleep 0.2; fi
	done
}

# timeout [-s SIGNAL] SECONDS CMD...: as timeout(1), with as many more seconds for a slow machine.
timeout() {
	local options=() limit
	if [ "$1" = -s ]; then
		options=(-s "$2")
		shift 2
	fi
	limit=$(($1 * ${TEST_SLOW:-1}))
	shift
	command timeout ${options[@]+"${options[@]}"} "$limit" "$@"
}

# _gone PID: no such process, or a zombie that is no longer waiting for other threads of its own.
_gone() {
	local key value state='' threads=0
	while read -r key value; do
		case $key in
		State:) state=$value ;;
		Threads:) threads=$value ;;
		esac
	done 2>/dev/null <"/proc/$1/status" || return 0
	[ -z "$state" ] || { [[ $state == [ZX]* ]] && [ "$threads" -le 1 ]; }
}

# kill9_and_reaped PID SECONDS: kill -9, then wait until it is gone, and with it all that it had open.
kill9_and_reaped() {
	kill -9 "$1" || die "cannot kill $1"
	wait_until "$2" _gone "$1"
}

# --- ckptfs ---

# mount_ckptfs [-o OPTS] [BACKING [MOUNTPOINT]]: mount, or the test fails. Directories are made where missing.
# Sets $BACK (TEST_TMP/back) and $MNT (TEST_TMP/mnt). Unmounted when the test ends.
# CKPTFS_TEST_FEATURES_OFF and CKPTFS_TEST_PIN_BUDGET of the run's environment reach the daemon as
# CKPTFS_FEATURES_OFF and CKPTFS_PIN_BUDGET, unless the test sets these itself. The cache has CKPTFS_TEST_CACHE
# (64M), unless OPTS say otherwise.
mount_ckptfs() {
	# Behind a closed gate (tests/units/units.bash) a lease that is being synced would hold up names.
	local always="host_cache_size=${CKPTFS_TEST_CACHE-64M}${GATE:+,lease_s=3600}" options
	options=(-o "$always")
	if [ "${1-}" = -o ]; then
		options=(-o "$always,$2")
		shift 2
	fi
	BACK=${1-$TEST_TMP/back}
	MNT=${2-$TEST_TMP/mnt}
	# The remains of a dead mount cannot be looked at; they are there, though.
	mkdir -p "$BACK" "$MNT" 2>/dev/null || grep -q " $MNT " /proc/self/mountinfo || die "cannot make $BACK and $MNT"
	if [ -n "${CKPTFS_TEST_FEATURES_OFF-}" ]; then
		export CKPTFS_FEATURES_OFF=${CKPTFS_FEATURES_OFF-$CKPTFS_TEST_FEATURES_OFF}
	fi
	if [ -n "${CKPTFS_TEST_PIN_BUDGET-}" ]; then
		export CKPTFS_PIN_BUDGET=${CKPTFS_PIN_BUDGET-$CKPTFS_TEST_PIN_BUDGET}
	fi
	expect_ok "$CKPTFS" mount ${options[@]+"${options[@]}"} "$BACK" "$MNT"
}

# umount_ckptfs [MOUNTPOINT]: as `ckptfs umount` does, or the test fails; default $MNT.
umount_ckptfs() {
	expect_ok "$CKPTFS" umount "${1-$MNT}"
}

# daemon_pid [MOUNTPOINT]: print the pid of the daemon behind it (default $MNT).
daemon_pid() {
	local json
	json=$("$CKPTFS" status --json "${1-$MNT}") || die "no status of ${1-$MNT}"
	"${PY[@]}" -c 'import json, sys; print(json.loads(sys.argv[1])["pid"])' "$json" || die "no pid in: $json"
}

# --- other users ---

# as_user UID CMD...: run the command (no function) as that user and the group of the same number, without other
# groups or any privilege. It reaches TEST_TMP, but writes only where the test lets it.
as_user() {
	local uid=$1
	shift
	setpriv --reuid="$uid" --regid="$uid" --clear-groups -- "$@"
}

# as_user_groups UID GROUPS CMD...: the same with supplementary groups (numbers, separated by commas).
as_user_groups() {
	local uid=$1 groups=$2
	shift 2
	setpriv --reuid="$uid" --regid="$uid" --groups="$groups" -- "$@"
}

_private_fuse() {
	mkdir -p "$TEST_TMP/.dev" &&
		mount -t tmpfs -o mode=755 tmpfs "$TEST_TMP/.dev" &&
		mknod "$TEST_TMP/.dev/fuse" c 10 229 &&
		chmod 666 "$TEST_TMP/.dev/fuse" &&
		mount --bind "$TEST_TMP/.dev/fuse" /dev/fuse
}

# user_fuse UID: let that user open /dev/fuse, in this test's mount namespace only, and reach $CKPTFS (where $BUILD
# is in a closed directory, BUILD, CKPTFS and PATH change to a mount of it). Skips where that cannot be.
user_fuse() {
	needs_root
	needs_fuse
	needs setpriv fusermount3
	if [ "$(stat -c %a /dev/fuse)" != 666 ]; then
		[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to open /dev/fuse to users in"
		_private_fuse || skip "cannot put a /dev/fuse for all users in place"
	fi
	# shellcheck disable=SC2016 # for the inner shell
	as_user "$1" sh -c ': <>/dev/fuse' 2>/dev/null || skip "user $1 cannot open /dev/fuse"
	if [ -d "$BUILD" ] && ! as_user "$1" test -x "$BUILD"; then
		mkdir -p "$TEST_TMP/.build"
		mount --bind "$BUILD" "$TEST_TMP/.build" || skip "user $1 cannot reach $BUILD"
		BUILD=$TEST_TMP/.build CKPTFS=$TEST_TMP/.build/bin/ckptfs PATH=$TEST_TMP/.build/bin:$PATH
	fi
}

# --- real filesystems ---

# loop_fs ext4|xfs SIZE_MB DIR: mount a new filesystem of its own at DIR (made if missing), through a sparse image
# in TEST_TMP. Sets $LOOP_DEV. Thawed, unmounted and detached when the test ends. Skips where the machine cannot.
loop_fs() {
	local kind=$1 size_mb=$2 dir=$3 image
	needs_root
	needs losetup "mkfs.$kind" fsfreeze
	image=$(mktemp "$TEST_TMP/loop.XXXXXX") || die "no image file"
	truncate -s "${size_mb}M" "$image" || die "no image of $size_mb MB"
	LOOP_DEV=$(losetup -f --show "$image") || skip "no loop device"
	_loops+=("$LOOP_DEV")
	case $kind in
	ext4) expect_ok mkfs.ext4 -q -F "$LOOP_DEV" ;;
	# The three variables are how mkfs.xfs lets test suites go below 300 MB.
	xfs) expect_ok env TEST_DIR=x TEST_DEV=x QA_CHECK_FS=x mkfs.xfs -q -f "$LOOP_DEV" ;;
	*) die "loop_fs: ext4 or xfs, not $kind" ;;
	esac
	mkdir -p "$dir" || die "cannot make $dir"
	mount -t "$kind" "$LOOP_DEV" "$dir" || skip "cannot mount $kind"
}
