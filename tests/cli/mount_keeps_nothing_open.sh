#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The daemon keeps nothing of its caller: not its output (or $(ckptfs mount) would hang), locks, or directory.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mkdir "$TEST_TMP/back" "$TEST_TMP/mnt" "$TEST_TMP/dir"
cd "$TEST_TMP/dir" || die "cannot enter"
exec 8>"$TEST_TMP/lock" 9>"$TEST_TMP/other"
flock 8
# shellcheck disable=SC2016 # for the inner shell
said=$(timeout 20 sh -c '"$CKPTFS" mount "$TEST_TMP/back" "$TEST_TMP/mnt" 2>&1') || die "mount: $? $said"
assert_eq "$said" ""
daemon=$(daemon_pid "$TEST_TMP/mnt")
assert_eq "$(readlink "/proc/$daemon/cwd")" / "its directory"
for fd in "/proc/$daemon/fd/"*; do
	target=$(readlink "$fd")
	case $target in
	"$TEST_TMP/lock" | "$TEST_TMP/other" | pipe:*) die "the daemon has $target open" ;;
	esac
done
for fd in 0 1 2; do
	assert_eq "$(readlink "/proc/$daemon/fd/$fd")" /dev/null "descriptor $fd"
done
assert_eq "$(ps -o tty= -o sess= -p "$daemon" | tr -d ' ')" "?$daemon" "its terminal and session"
exec 8>&-
expect_ok flock -n "$TEST_TMP/lock" true

# A caller that has closed its own.
expect_ok "$CKPTFS" umount "$TEST_TMP/mnt"
"$CKPTFS" mount "$TEST_TMP/back" "$TEST_TMP/mnt" <&- >&- 2>&- || die "mount without descriptors"
echo data >"$TEST_TMP/mnt/file"
assert_eq "$(cat "$TEST_TMP/back/file")" data
expect_ok "$CKPTFS" umount "$TEST_TMP/mnt"
