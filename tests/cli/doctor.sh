#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# cpu: 30
# doctor tells what this host and a backing can do, with a remedy for what they cannot, and what a save will cost; it
# leaves nothing behind, also when a signal ends it.

. "${SRC:?}/tests/cli/verbs.sh"

needs python3
cd "$TEST_TMP" || die "cannot enter"

AS=() # words before the command

# doctor STATUS ARGS...: exit status of `ckptfs doctor ARGS`, after the words of AS. Sets $STDOUT, $STDERR.
doctor() {
	local status=$1
	shift
	timeout 60 ${AS[@]+"${AS[@]}"} "$CKPTFS" doctor "$@" >"$TEST_TMP/.stdout" 2>"$TEST_TMP/.stderr"
	assert_eq $? "$status" "exit status of doctor $*: $(cat "$TEST_TMP/.stdout" "$TEST_TMP/.stderr")"
	STDOUT=$(cat "$TEST_TMP/.stdout")
	STDERR=$(cat "$TEST_TMP/.stderr")
}

# any ARGS...: the same, whatever the status.
any() {
	run timeout 60 ${AS[@]+"${AS[@]}"} "$CKPTFS" doctor "$@"
	STDOUT=$OUT
}

# row NAME: the row of that name, and its remedy.
row() {
	printf '%s\n' "$STDOUT" | awk -v name="$1" '
		index($0, sprintf("%-14s ", name)) == 1 { on = 1; print; next }
		/^ / { if (on) print; next }
		{ on = 0 }' | tr -s ' '
}

# says NAME RESULT WORDS [REMEDY]: of what was printed last.
says() {
	local found
	found=$(row "$1")
	assert_contains "$found" "$1 $2 " "row $1 in $STDOUT"
	assert_contains "$found" "$3" "row $1"
	if [ $# -gt 3 ]; then
		assert_contains "$found" "-> " "row $1"
		assert_contains "${found#*-> }" "$4" "remedy of $1"
	fi
	[[ $2 != ok || $found != *"-> "* ]] || die "a remedy where all is well: $found"
}

# of NAME EXPRESSION: of the row `r` of that name, in $STDOUT as JSON.
of() {
	value "[$2 for r in x['checks'] if r['name'] == '$1'][0]" "$STDOUT"
}

# --- the host ---

HOST="['kernel', '/dev/fuse', 'fusermount3', 'fuse timeouts', 'fuse requests', 'memory', 'huge pages', 'memlock', 'open files', 'io_uring', 'openat2', \
'exit status', 'pidfd', 'pids']"
BACKING="['load', 'backing', 'filesystem', 'free space', 'O_DIRECT', 'user xattrs', 'rename', 'exchange', 'birth times', \
'coord=dir', 'small files', 'bandwidth', 'save, plain', 'save, mount', 'save, lazy']"
any
[ "$RC" -le 1 ] || die "exit status $RC"
for name in kernel /dev/fuse fusermount3 "fuse timeouts" "fuse requests" memory "huge pages" memlock "open files" io_uring openat2 "exit status" \
	pidfd pids; do
	[ -n "$(row "$name")" ] || die "no row $name in $STDOUT"
done
assert_contains "$(row kernel)" "Linux $(uname -r), with"
assert_eq "$(printf '%s\n' "$STDOUT" | grep -vE '^([^ ].{13} (ok  |warn|fail)  [^ ]| {21}-> [^ ])')" "" "odd lines"
any --json
assert_eq "$(value 'sorted(x), x["save"]' "$STDOUT")" "(['checks', 'ok', 'save'], None)"
assert_eq "$(value '[c["name"] for c in x["checks"]]' "$STDOUT")" "$HOST"
assert_eq "$(value '{tuple(sorted(c)) for c in x["checks"]}' "$STDOUT")" "{('found', 'name', 'remedy', 'result')}"
assert_eq "$(value '{c["result"] for c in x["checks"]} <= {"ok", "warn", "fail"}' "$STDOUT")" True
assert_eq "$(value '[c for c in x["checks"] if (c["result"] == "ok") != (c["remedy"] is None)]' "$STDOUT")" "[]"
assert_eq "$(value 'x["ok"] == all(c["result"] != "fail" for c in x["checks"])' "$STDOUT")" True
assert_eq "$(value 'x["ok"]' "$STDOUT")" "$([ "$RC" = 0 ] && echo True || echo False)"

AS=(env CKPTFS_FEATURES_OFF=all)
any
says io_uring warn "turned off by CKPTFS_FEATURES_OFF; a pool of threads writes instead" "unset CKPTFS_FEATURES_OFF"
says openat2 warn "not available" "unset CKPTFS_FEATURES_OFF"
AS=()
if setarch --uname-2.6 true 2>/dev/null; then
	AS=(setarch --uname-2.6)
	doctor 1
	says kernel fail "is too old" "5.14"
	AS=()
fi

# --- a backing ---

mkdir back
echo mine >back/file.pt
before=$(listing back)
any back
says backing ok "$TEST_TMP/back can be written to"
[ -n "$(row filesystem)" ] || die "no row filesystem in $STDOUT"
assert_contains "$(row "small files")" "4 KiB are on the backing under their name after "
says bandwidth ok "written in order"
[[ $(row bandwidth) =~ "(median of 3: "[0-9.]+" "[KMG]"iB to "[0-9.]+" "[KMG]"iB)" ]] || die "$(row bandwidth)"
# The same save in three ways.
[[ $(row "save, plain") =~ "10 GiB into this directory, synced, without ckptfs: training waits about "[0-9.]+" s ("[0-9.]+\
" "[KMG]"iB/s)" ]] || die "$(row "save, plain")"
[[ $(row "save, mount") =~ "10 GiB by an unmodified program on a mount: training waits about "[0-9.]+" s (copy into the "\
"cache, "[0-9.]+" "[KMG]"iB/s) if host_cache_size >= 10 GiB"(", about "[0-9.]+" s with the default of ".*)?"; on the "\
"backing after about "[0-9.]+" s"$ ]] || die "$(row "save, mount")"
[[ $(row "save, lazy") =~ "10 GiB by ckptfs.save: training waits some milliseconds, if the next update of the weights is "\
[0-9.]+" s or more later (copied in the background, "[0-9.]+" "[KMG]"iB/s)" ]] || die "$(row "save, lazy")"
assert_eq "$(listing back)" "$before" "what doctor left"
any --json back
assert_eq "$(value '[c["name"] for c in x["checks"] if c["name"] not in ("quota",)]' "$STDOUT")" "${HOST%]}, ${BACKING#[}"
assert_eq "$(value 'sorted(x["save"])' "$STDOUT")" "['backing_bytes_per_s', 'blocked_default_cache_s', 'blocked_s', \
'bytes', 'capture_bytes_per_s', 'capture_s', 'copy_bytes_per_s', 'durable_s', 'plain_bytes_per_s', 'plain_s', 'small_file_s']"
assert_eq "$(value 'min(x["save"].values()) > 0' "$STDOUT")" True
assert_eq "$(value '0 < x["save"]["blocked_s"] <= x["save"]["durable_s"], x["save"]["bytes"]' "$STDOUT")" \
	"(True, 10737418240)"
assert_eq "$(value 'x["save"]["blocked_s"] <= x["save"]["blocked_default_cache_s"] <= x["save"]["durable_s"]' \
	"$STDOUT")" True
assert_eq "$(listing back)" "$before" "what doctor left"
expect_ok "$CKPTFS" init back
any back/
says backing ok "$TEST_TMP/back is ready, uuid $(value 'x["uuid"]' "$(cat back/.ckptfs/version.json)")"
AS=(env "CKPTFS_FEATURES_OFF=odirect,xattr,rename_flags,btime")
any back
for name in O_DIRECT "user xattrs" rename exchange "birth times"; do
	says "$name" warn "turned off by CKPTFS_FEATURES_OFF" "unset"
done
AS=()

# What is no backing.
doctor 1 missing
says backing fail "the backing directory missing does not exist"
[ -z "$(row filesystem)" ] || die "went on: $STDOUT"
doctor 1 back/file.pt
says backing fail "is not a directory"
doctor 1 --json missing
assert_eq "$(value 'x["ok"], x["checks"][-1]["result"]' "$STDOUT")" "(False, 'fail')"
mkdir back/inner
doctor 1 back/inner
says backing fail "back/inner lies inside $TEST_TMP/back, which is the backing"
echo '{"ckptfs": 99}' >back/.ckptfs/version.json
doctor 1 back
says backing fail "has format 99, this ckptfs knows up to"

# --- usage ---

doctor 2 a b
assert_contains "$STDERR" "give one backing, or none"
doctor 2 --bogus
assert_contains "$STDERR" "usage: ckptfs doctor [--json] [BACKING]"
doctor 0 --help
assert_contains "$STDOUT" "usage: ckptfs doctor [--json] [BACKING]"

# --- as others find it; all of this in a mount namespace of its own ---

[ "$(id -u)" = 0 ] || exit 0
needs setpriv
[ "$TEST_PRIVATE" = 1 ] || exit 0
rm -r back
mkdir back

# says_of_host NAME ...: as says, of what it prints now.
says_of_host() {
	any
	says "$@"
}
any
says fusermount3 ok "not needed by root"
says pids warn "a pid namespace of its own" "hostPID: true"

AS=(setpriv "--bounding-set=-sys_ptrace,-ipc_lock,-sys_resource" --)
ulimit -Sl 64
any
says memlock warn "64.0 KiB may be locked, the cache needs" "ulimit -l unlimited"
says "exit status" warn "of other users' processes cannot be read" "CAP_SYS_PTRACE"
ulimit -Sl "$(ulimit -Hl)"
AS=(setpriv "--bounding-set=-dac_override,-dac_read_search,-fowner" --)
mkdir -m 755 theirs
chown 1001:1001 theirs
any theirs
says backing warn "root cannot make a file there (root_squash?): Permission denied" "run doctor as one of them"
[ -z "$(row "small files")" ] || die "went on: $STDOUT"
USER_1001=("$(command -v setpriv)" --reuid=1001 --regid=1001 --clear-groups)
AS=("${USER_1001[@]}" --)
if as_user 1001 "$CKPTFS" --help >/dev/null 2>&1; then
	any theirs
	says backing ok "$TEST_TMP/theirs can be written to"
	any back
	says backing fail "you cannot make a file there: Permission denied" "name a directory of yours"
	says "exit status" ok "of your own processes can be read"
	AS=(env PATH="$TEST_TMP/nowhere" "${USER_1001[@]}" --)
	says_of_host fusermount3 fail "is not in PATH" "package fuse3"
	mkdir bin
	cp "$(type -P true)" bin/fusermount3
	AS=(env PATH="$TEST_TMP/bin" "${USER_1001[@]}" --)
	says_of_host fusermount3 fail "$TEST_TMP/bin/fusermount3 is not set-user-ID root" "chmod 4755"
	chmod 4755 bin/fusermount3
	says_of_host fusermount3 ok "$TEST_TMP/bin/fusermount3, set-user-ID root"
	AS=(env PATH="$TEST_TMP/bin" "${USER_1001[@]}" --no-new-privs --)
	says_of_host fusermount3 fail "may not gain privileges (no_new_privs)"
	AS=("${USER_1001[@]}" -- bash -c 'ulimit -n 512; exec "$@"' x)
	says_of_host "open files" warn "the daemon may have 512" "LimitNOFILE="
fi
AS=()

mkdir dev
mount -t tmpfs -o mode=755 tmpfs dev
mknod -m 000 dev/fuse c 10 229
if mount --bind dev/fuse /dev/fuse 2>/dev/null; then
	AS=(setpriv "--bounding-set=-dac_override,-dac_read_search" --)
	doctor 1
	says /dev/fuse fail "cannot be opened: Permission denied" "chmod 666 /dev/fuse"
	umount /dev/fuse
	AS=()
fi
mount -t tmpfs tmpfs /sys/fs/cgroup || skip "cannot put another cgroup in place"
echo 1073741824 >/sys/fs/cgroup/memory.max
any
says memory "$(row memory | cut -d' ' -f2)" "; /sys/fs/cgroup/memory.max allows 1.0 GiB"
assert_contains "$(row memory)" "host_cache_size is 128.0 MiB unless it is given"
rm /sys/fs/cgroup/memory.max
group=$(sed -n 's/^[0-9]*:memory:\(.*\)/\1/p' /proc/self/cgroup)
if [ -n "$group" ]; then
	[ "$group" != / ] || group=
	mkdir -p "/sys/fs/cgroup/memory$group"
	echo 536870912 >"/sys/fs/cgroup/memory$group/memory.limit_in_bytes"
	any
	says memory warn "/sys/fs/cgroup/memory$group/memory.limit_in_bytes allows 512.0 MiB, which the default" \
		"set host_cache_size to an eighth"
fi
umount /sys/fs/cgroup
if [ -d /proc/sys/fs/fuse ] && mount -t tmpfs tmpfs /proc/sys/fs/fuse; then
	says_of_host "fuse timeouts" ok "none"
	echo 0 >/proc/sys/fs/fuse/default_request_timeout
	echo 600 >/proc/sys/fs/fuse/max_request_timeout
	says_of_host "fuse timeouts" warn "one call takes longer than 600 s" "fs.fuse.max_request_timeout=0"
	echo 45 >/proc/sys/fs/fuse/default_request_timeout
	says_of_host "fuse timeouts" warn "one call takes longer than 45 s"
	says_of_host "fuse requests" warn "have up to 1 MiB of a write" "Linux 6.13"
	echo 256 >/proc/sys/fs/fuse/max_pages_limit
	says_of_host "fuse requests" warn "up to 1.0 MiB of a write (fs.fuse.max_pages_limit is 256)" \
		"sysctl -w fs.fuse.max_pages_limit=1024, then mount"
	echo 1024 >/proc/sys/fs/fuse/max_pages_limit
	says_of_host "fuse requests" ok "up to 4.0 MiB of a write"
	umount /proc/sys/fs/fuse
fi
if [ -d /sys/kernel/mm/transparent_hugepage ] && mount -t tmpfs tmpfs /sys/kernel/mm/transparent_hugepage; then
	says_of_host "huge pages" warn "this kernel has none"
	echo "always within_size advise [never] deny force" >/sys/kernel/mm/transparent_hugepage/shmem_enabled
	says_of_host "huge pages" warn "are refused to shared memory (never)" "echo advise >/sys/kernel/mm"
	echo "always within_size [advise] never deny force" >/sys/kernel/mm/transparent_hugepage/shmem_enabled
	says_of_host "huge pages" ok "may have them (advise)"
	umount /sys/kernel/mm/transparent_hugepage
fi

# Others that use the host make all times longer.
for load in "21.07 warn" "0.01 ok"; do
	echo "${load% *} 3.00 2.00 5/200 12345" >loadavg
	mount --bind loadavg /proc/loadavg || break
	any back
	umount /proc/loadavg
	says load "${load#* }" "$([ "${load#* }" = ok ] && echo "0.0 on" || echo "others use this host (load 21.1, ")"
done

# Filesystems that can do less.
mkdir other
mount -t ramfs ramfs other
any other
says filesystem warn "ramfs: what is saved there is gone when the host restarts" "storage that lasts"
says "free space" ok "does not tell"
says "user xattrs" warn "none can be set (Operation not supported)" "user_xattr"
says O_DIRECT warn "not on this filesystem" "nothing need be done"
umount other
mount -t tmpfs -o size=1M tmpfs other
any other
says "free space" warn "1.0 MiB and" "remove old checkpoints"
says bandwidth warn "not measured: No space left on device" "free 1 GiB"
[ -z "$(row "save, plain")" ] || die "promised: $STDOUT"
mount -o remount,ro other
doctor 1 other
says backing fail "$TEST_TMP/other is read-only" "-o ro"
umount other
if command -v bindfs >/dev/null && bindfs --create-for-user=1001 --create-for-group=1001 back other 2>/dev/null; then
	any other
	says ownership warn "a file made by uid 0 there belongs to uid 1001"
	umount other
fi
assert_eq "$(listing back)" "" "what doctor left"

# A directory in a mount is not touched, whatever became of its daemon.
needs_fuse
mount_ckptfs
doctor 1 "$MNT/x"
says backing fail "$MNT/x lies inside the ckptfs mount $MNT"
daemon=$(daemon_pid)
kill -STOP "$daemon"
doctor 1 "$MNT"
says backing fail "lies inside the ckptfs mount"
kill -CONT "$daemon"
umount_ckptfs

# On a backing that hangs it says what it does, and a signal ends it as soon as that answers; nothing is left.
loop_fs ext4 64 "$TEST_TMP/disk"
cat >hang.py <<'END'
import os, pty, signal, subprocess, sys, time

master, slave = pty.openpty()
subprocess.run(["fsfreeze", "-f", "disk"], check=True)
try:
	process = subprocess.Popen([os.environ["CKPTFS"], "doctor", "disk"], stdout=subprocess.DEVNULL, stderr=slave)
	os.close(slave)
	seen = b""
	while b"disk: making a file" not in seen:
		seen += os.read(master, 4096)
	process.send_signal(signal.SIGTERM)
	while "ShdPnd:\t0000000000000000" not in open("/proc/%d/status" % process.pid).read():
		time.sleep(0.01)
finally:
	subprocess.run(["fsfreeze", "-u", "disk"], check=True)
sys.exit(process.wait() != -signal.SIGTERM)
END
rm -r disk/lost+found
expect_ok timeout 60 python3 hang.py
assert_eq "$(listing disk)" "" "what doctor left"
