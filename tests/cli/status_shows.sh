#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# status tells of a mount: as a table for people and, with --json, for machines, with every field.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
mount_ckptfs -o node=n5
head -c 3000000 /dev/zero >"$MNT/file"
exec 9<"$MNT/file"
expect_ok timeout 2 "$CKPTFS" status --json "$MNT"
json=$OUT
assert_eq "$(value 'sorted(x)' "$json")" "['abi', 'backing', 'bytes', 'cache', 'captures', 'coord', 'exit_status_readable', 'failures', 'features', \
'flush', 'mountpoint', 'node', 'nodes', 'notices', 'open_handles', 'pending', 'pid', 'read_only', 'removals', 'requests', 'sessions', 'started_ns', 'state', 'units', 'uuid', 'version']"
assert_eq "$(value 'x["state"], x["node"], x["read_only"], x["failures"]' "$json")" "('live', 'n5', False, 0)"
assert_eq "$(value 'x["backing"] + " " + x["mountpoint"]' "$json")" "$BACK $MNT"
assert_eq "$(value 'x["bytes"]["written"]' "$json")" 3000000
assert_eq "$(value 'x["open_handles"]' "$json")" 1
assert_eq "$(value 'sorted(x["bytes"])' "$json")" "['read', 'written']"
assert_eq "$(value '0 <= __import__("time").time() - x["started_ns"] / 1e9 < 60' "$json")" True
assert_eq "$(value 'x["uuid"]' "$json")" "$(value 'x["uuid"]' "$(cat "$BACK/.ckptfs/version.json")")"
assert_eq "$(readlink "/proc/$(value 'x["pid"]' "$json")/exe")" "$(readlink -f "$CKPTFS")" "its program"
assert_eq "$(value 'sorted(x["features"])' "$json")" "['act_as_caller', 'btime', 'direct_mmap', 'io_uring', 'odirect', 'openat2', \
'passthrough', 'rename_flags', 'xattr']"
assert_eq "$(value 'set(x["features"].values()) <= {"yes", "no", "unknown", "off"}' "$json")" True

expect_ok timeout 2 "$CKPTFS" status "$MNT"
for line in "mount        $MNT" "backing      $BACK" "node         n5, daemon pid $(daemon_pid), version " \
	"written      2.9 MiB" "open         1 files and directories" "failures     0" "features     passthrough:"; do
	assert_contains $'\n'"$OUT" $'\n'"$line"
done
[[ $OUT =~ up\ +0d\ 00:00:[0-9][0-9] ]] || die "no age in $OUT"
exec 9<&-
umount_ckptfs
