# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For the tests of the command: what they say often.
# (Not executable and without #!, so the runner takes it for no test.)

. "$SRC/tests/lib.sh"

# daemons: print the pids of the ckptfs processes that are not zombies. Only with a pid namespace of one's own.
daemons() {
	local pid
	for pid in $(pgrep -x ckptfs); do
		_gone "$pid" || echo "$pid"
	done
}

# no_daemons_but PID...: is nothing of ckptfs left but these?
no_daemons_but() {
	[ "$(daemons | sort)" = "$(printf '%s\n' "$@" | grep . | sort)" ]
}

# ckptfs_mounts: the mounts of ckptfs that are the test's.
ckptfs_mounts() {
	grep -F ' - fuse.ckptfs ' /proc/self/mountinfo | grep -F " $TEST_TMP/"
}

# slow_reads DIR POINT: DIR seen at POINT, where 64 MB take some seconds to be read. False: not here.
slow_reads() {
	[ "$(id -u)" = 0 ] && command -v bindfs >/dev/null && [ -w /dev/fuse ] || return
	mkdir -p "$2"
	bindfs -f --multithreaded --read-rate=20M "$1" "$2" >"$TEST_TMP/.bindfs" 2>&1 &
	on_exit kill -9 $!
	disown $!
	wait_until 10 mountpoint -q "$2"
}

# watched FILE CMD...: runs it on a terminal and changes FILE once it tells how far it is with that. Sets $OUT, its exit
# status at the end.
watched() {
	expect_ok python3 "$SRC/tests/cli/watch.py" "$@"
	OUT=$(tr -d '\r' <<<"$OUT")
}

# listing DIR: everything below it, with type, mode, size and content.
listing() {
	if [ -e "$1" ]; then
		find "$1" -mindepth 1 -printf '%P %y %m %s %l\n' | sort
		find "$1" -type f -exec md5sum {} + | sort
	fi
}

# refused STATUS PHRASE ARGS...: `ckptfs mount ARGS` exits with STATUS, says PHRASE, and leaves nothing: no mount
# more than before, no daemon more, $BACK as it was.
refused() {
	local status=$1 phrase=$2 mounts files pids
	shift 2
	mounts=$(ckptfs_mounts) files=$(listing "${BACK:-/nonexistent}") pids=$(daemons)
	run ${AS[@]+"${AS[@]}"} timeout 10 "$CKPTFS" mount "$@"
	assert_eq "$RC" "$status" "exit status of mount $*"$'\n'"$OUT"
	assert_contains "$OUT" "$phrase"
	assert_eq "$(ckptfs_mounts)" "$mounts" "mounts after a refusal"
	assert_eq "$(listing "${BACK:-/nonexistent}")" "$files" "the backing after a refusal"
	# shellcheck disable=SC2086 # a list
	[ "$TEST_PRIVATE" != 1 ] || wait_until 10 no_daemons_but $pids
}
AS=() # what refused puts before the command

# value EXPRESSION JSON: the Python expression about `x`, which is JSON.
value() {
	"${PY[@]}" -c 'import json, sys; x = json.loads(sys.argv[2]); print(eval(sys.argv[1]))' "$1" "$2" ||
		die "no value of $1 in: $2"
}

# status_of EXPRESSION [PATH]: of what `status --json` says.
status_of() {
	value "$1" "$("$CKPTFS" status --json "${2-$MNT}" 2>/dev/null)"
}

# name_user UID: fusermount3 refuses a user without a name.
name_user() {
	getent passwd "$1" >/dev/null && return
	[ "$TEST_PRIVATE" = 1 ] || skip "user $1 has no name, which fusermount3 needs"
	{ cat /etc/passwd && echo "tester$1:x:$1:$1::/:/bin/false"; } >"$TEST_TMP/.passwd.$1"
	mount --bind "$TEST_TMP/.passwd.$1" /etc/passwd || skip "cannot give user $1 a name"
}

# user_mount UID [-o OPTS]: that user mounts TEST_TMP/back at TEST_TMP/mnt, and all verbs of the test use that
# user's run directory.
user_mount() {
	local uid=$1
	shift
	user_setup "$uid"
	expect_ok as_user "$uid" "$CKPTFS" mount -o host_cache_size=64M "$@" "$BACK" "$MNT"
}

# user_setup UID: all of user_mount but the mount.
user_setup() {
	user_fuse "$1"
	name_user "$1"
	BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt CKPTFS_RUN_DIR=$TEST_TMP/run
	mkdir -p "$BACK" "$MNT" "$CKPTFS_RUN_DIR"
	chown "$1:$1" "$BACK" "$MNT" "$CKPTFS_RUN_DIR"
	cd "$TEST_TMP" || die "cannot enter $TEST_TMP"
}

# hold FILE: a process named "holder" has it open; sets $HOLDER.
hold() {
	cp "$(command -v tail)" "$TEST_TMP/holder"
	"$TEST_TMP/holder" -f "$1" >/dev/null 2>&1 &
	HOLDER=$!
	wait_until 10 holds "$HOLDER" "$1"
}

# holds PID FILE: has it the file open?
holds() {
	local fd
	for fd in "/proc/$1/fd/"*; do
		[ "$(readlink "$fd")" != "$2" ] || return 0
	done
	return 1
}

# quit PID: end a process of the test, and reap it.
quit() {
	kill "$1"
	wait "$1" 2>/dev/null
}

# is_mounted [PATH]: in this namespace's list of mounts.
is_mounted() {
	ckptfs_mounts | grep -qF " ${1-$MNT} "
}

# not CMD...: for wait_until.
not() {
	! "$@"
}

# install_helper: put mount.ckptfs where mount(8) looks for it, in this mount namespace only.
install_helper() {
	local sbin
	needs_root
	needs_fuse
	[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to install mount.ckptfs in"
	sbin=$(readlink -f /sbin)
	mkdir "$TEST_TMP/.sbin" "$TEST_TMP/.real"
	mount --bind "$sbin" "$TEST_TMP/.real" || skip "cannot bind $sbin"
	find "$TEST_TMP/.real" -mindepth 1 -maxdepth 1 -exec ln -s -t "$TEST_TMP/.sbin" {} +
	ln -sf "$SRC/mount-scripts/mount.ckptfs" "$TEST_TMP/.sbin/mount.ckptfs"
	mount --bind "$TEST_TMP/.sbin" "$sbin" || skip "cannot put another $sbin in place"
}

# install_helpers: the same with all names that `make install` gives them.
install_helpers() {
	install_helper
	ln -sf "$SRC/mount-scripts/mount.ckptfs" "$TEST_TMP/.sbin/mount.fuse.ckptfs"
	ln -sf "$SRC/mount-scripts/umount.ckptfs" "$TEST_TMP/.sbin/umount.fuse.ckptfs"
}

# run_dir_is_empty: no socket and no label is left.
run_dir_is_empty() {
	[ -z "$(find "$CKPTFS_RUN_DIR" -mindepth 1)" ]
}

# socket: print the path of the only daemon's socket.
socket() {
	find "$CKPTFS_RUN_DIR" -name '*.sock'
}

# only_own_mounts: in this mount namespace, none but the test's mounts of ckptfs.
only_own_mounts() {
	local path
	needs_root
	[ "$TEST_PRIVATE" = 1 ] || skip "no mount namespace of its own, to hide other mounts in"
	while IFS= read -r path; do
		umount -i -l "$path" || die "cannot hide $path"
	done < <(grep -F ' - fuse.ckptfs ' /proc/self/mountinfo | cut -d' ' -f5)
}

# option_keys: print the keys that `mount --help` lists, each on a line.
option_keys() {
	"$CKPTFS" mount --help | sed -n '/^Mount options/,$ s/^  \([a-z_]*\) .*/\1/p' | grep -vx 'config\|ro\|noatime\|nonempty'
}
