#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Where the kernel refuses passthrough, as over an overlay, the log says so once and reads work.
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT" "$TEST_TMP/disk"
mount -t tmpfs tmpfs "$TEST_TMP/disk"
mkdir "$TEST_TMP/disk/lower" "$TEST_TMP/disk/upper" "$TEST_TMP/disk/work"
layers=lowerdir=$TEST_TMP/disk/lower,upperdir=$TEST_TMP/disk/upper,workdir=$TEST_TMP/disk/work
mount -t overlay -o "$layers" overlay "$BACK" || skip "no overlay filesystem"
echo data >"$BACK/file"
"$CKPTFS" mount -f -o host_cache_size=64M "$BACK" "$MNT" 2>"$TEST_TMP/log" &
wait_until 10 "$CKPTFS" status "$MNT"
before=$(status_of 'x["features"]["passthrough"]')
for _ in 1 2 3; do
	expect_ok cat "$MNT/file"
	assert_eq "$OUT" data
done
state=$(status_of 'x["features"]["passthrough"]')
umount_ckptfs
assert_eq "$state" no "passthrough"
[ "$before" = unknown ] || skip "this kernel has no passthrough to refuse"
assert_eq "$(grep -c "kernel passthrough is off: .*\. Reads go through the daemon instead" \
	"$TEST_TMP/log")" 1 "in the log: $(cat "$TEST_TMP/log")"
