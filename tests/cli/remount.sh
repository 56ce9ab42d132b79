#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# remount,ro and remount,rw change the mount, as mountinfo shows; they are refused while that could lose a checkpoint, and so
# is every other change.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

install_helpers
# shown: the flags of the mount and of its filesystem, as mountinfo has them.
shown() {
	ckptfs_mounts | grep -F " $MNT " | sed 's/.* \([^ ]*\) - fuse.ckptfs [^ ]* \([^,]*\),.*/\1 \2/'
}
# unchanged PHRASE ARGS...: `mount ARGS` says PHRASE, and changes nothing.
unchanged() {
	local phrase=$1 before
	shift
	before=$(shown)
	run mount "$@"
	assert_eq "$RC" 32 "exit status of mount $*: $OUT"
	assert_contains "$OUT" "$phrase"
	assert_eq "$(shown)" "$before"
}

mount_ckptfs -o noexec,noatime
daemon=$(daemon_pid)
echo data >"$MNT/file"
assert_eq "$(shown)" "rw,nosuid,nodev,noexec,noatime rw"
expect_ok mount -o remount,ro "$MNT"
assert_eq "$(shown)" "ro,nosuid,nodev,noexec,noatime ro"
assert_eq "$(status_of 'x["read_only"]')" True
assert_contains "$("$CKPTFS" status "$MNT")" "$MNT (read-only)"
expect_fail touch "$MNT/new"
assert_contains "$OUT" "Read-only file system"
assert_eq "$(cat "$MNT/file")" data
expect_ok mount -o remount,rw "$MNT"
assert_eq "$(shown)" "rw,nosuid,nodev,noexec,noatime rw"
expect_ok "$CKPTFS" mount -o remount,ro "$MNT"
expect_ok "$CKPTFS" mount -o remount "$MNT" # nothing is said, nothing changes
assert_eq "$(shown)" "ro,nosuid,nodev,noexec,noatime ro"
expect_ok "$CKPTFS" mount -o remount,rw "$BACK" "$MNT"
echo more >"$MNT/file"
assert_eq "$(daemon_pid)" "$daemon"

# What is being saved.
mkfifo "$TEST_TMP/end"
python3 -c 'import sys; f = open(sys.argv[1], "wb", 0); f.write(b"data"); open(sys.argv[2]).read()' \
	"$MNT/new.pt" "$TEST_TMP/end" &
exec 9>"$TEST_TMP/end" # it has opened, and written to, the file then
unchanged "stays writable: it is saving" -o remount,ro "$MNT"
assert_contains "$OUT" "wait for them with \`ckptfs drain $MNT\`"
exec 9>&-
wait || die "the writer failed"
expect_ok "$CKPTFS" wait "$MNT/new.pt"
exec 8>>"$MNT/log"
unchanged "a file in it is open for writing; the mount is in use by " -o remount,ro "$MNT"
assert_contains "$OUT" "bash (pid $$)"
exec 8>&-

# Other options.
unchanged "the option quiet_s of $MNT cannot be changed while it is mounted, only ro and rw can" -o remount,quiet_s=3 "$MNT"
for option in exec atime; do # which mount(8) leaves out
	expect_fail "$CKPTFS" mount -o "remount,$option" "$MNT"
	assert_contains "$OUT" "the option $option of $MNT cannot be changed"
done
unchanged "unknown option 'bogus'" -o remount,bogus "$MNT"
# The same values, in other words, are none.
expect_ok "$CKPTFS" mount -o remount,ro,host_cache_size=65536K,quiet_s=60,fsync=barrier,pin_host_cache "$MNT"
expect_ok "$CKPTFS" mount -o remount,rw "$MNT"
unchanged "the option pin_host_cache of" -o remount,pin_host_cache=no "$MNT"
umount_ckptfs
mount_ckptfs
unchanged "the option noatime of $MNT cannot" -o remount,noatime "$MNT"
expect_fail as_user 1001 "$CKPTFS" mount -o remount,ro "$MNT"
assert_contains "$OUT" "cannot remount $MNT: Operation not permitted. Nothing was changed; only root may remount"
expect_fail "$CKPTFS" mount -o remount,ro "$MNT/file"
assert_contains "$OUT" "$MNT/file is not on a ckptfs mount"
expect_fail "$CKPTFS" mount -o remount,ro "$TEST_TMP"
assert_contains "$OUT" "$TEST_TMP is not on a ckptfs mount"
run "$CKPTFS" mount -o remount,ro
assert_eq "$RC" 2 "$OUT"
kill9_and_reaped "$(daemon_pid)" 10
unchanged "the daemon of $MNT is not running" -o remount,ro "$MNT"
umount_ckptfs

# Mounted read-only, there is no cache to save with.
mount_ckptfs -o ro
unchanged "$MNT was mounted with -o ro, and its daemon has no cache" -o remount,rw "$MNT"
assert_contains "$OUT" "ckptfs umount $MNT, then mount it without ro"
expect_fail touch "$MNT/new"
assert_contains "$OUT" "Read-only file system"
umount_ckptfs
