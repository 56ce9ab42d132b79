#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# log_level decides how much a daemon in the foreground says on stderr.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/back" "$TEST_TMP/mnt"

# log_at LEVEL: print what the daemon logs from mount to umount.
log_at() {
	local daemon
	"$CKPTFS" mount -f -o "log_level=$1,node=n1" "$TEST_TMP/back" "$TEST_TMP/mnt" 2>"$TEST_TMP/log" &
	daemon=$!
	wait_until 10 "$CKPTFS" status "$TEST_TMP/mnt"
	rmdir "$TEST_TMP/mnt/.ckptfs" 2>/dev/null # refused, which the log tells
	"$CKPTFS" umount "$TEST_TMP/mnt" || die "umount"
	wait "$daemon" || die "exit status $? of the daemon"
	cat "$TEST_TMP/log"
}

for level in debug info; do
	log=$(log_at "$level")
	assert_contains "$log" "ckptfs: info: $TEST_TMP/back is mounted at $TEST_TMP/mnt as node n1"
	assert_contains "$log" "'.ckptfs' is reserved for the control directory; uid $(id -u) cannot create, replace or"
done
for level in warn error; do
	log=$(log_at "$level")
	[[ $log != *"ckptfs: info:"* ]] || die "info at log_level=$level: $log"
done
