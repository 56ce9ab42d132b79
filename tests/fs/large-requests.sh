#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A mount that is made while the kernel allows larger requests gets a write in parts of 4 MiB, else in parts of 1 MiB;
# the bytes are right wherever a write begins and ends.
#
# needs: root

. "${SRC:?}/tests/lib.sh"

LIMIT=/proc/sys/fs/fuse/max_pages_limit
needs_fuse
[ -e $LIMIT ] || skip "the kernel has no fs.fuse.max_pages_limit"
before=$(cat $LIMIT)
echo "$before" 2>/dev/null >$LIMIT || skip "fs.fuse.max_pages_limit cannot be set"
on_exit eval "echo $before >$LIMIT"

# mount_with PAGES: a mount made under that limit, which is then as it was.
mount_with() {
	echo "$1" >$LIMIT
	mount_ckptfs -o host_cache_size=64M
	echo "$before" >$LIMIT
}

# writes: how many WRITE requests the mount has served.
writes() {
	sed -n 's/^ckptfs_request_seconds_count{.*op="WRITE"} //p' "$MNT/.ckptfs/metrics"
}

head -c 24M /dev/urandom >"$TEST_TMP/data"

# check NAME REQUESTS: an aligned write of 8 MiB to NAME takes so many requests.
check() {
	expect_ok dd if="$TEST_TMP/data" of="$MNT/$1" bs=8M count=1 status=none
	assert_eq "$(writes)" "$2" "requests for a write of 8 MiB to $1"
	expect_ok cmp -n 8388608 "$TEST_TMP/data" "$MNT/$1"
}

mount_with 256
check x.pt 8
umount_ckptfs

mount_with 1024
check y.pt 2
check plain 4
for name in z.pt odd; do
	expect_ok "$PYTHON" - "$TEST_TMP/data" "$MNT/$name" <<'END'
import sys
data = memoryview(open(sys.argv[1], "rb").read())
with open(sys.argv[2], "wb", buffering=0) as file:
	at = 0
	for size in (100, 9 << 20, 1, 4 << 20, 4096 + 7, 5 << 20, len(data)):
		n = file.write(data[at:at + size])
		assert n == min(size, len(data) - at), n
		at += n
END
done
umount_ckptfs
for name in z.pt odd; do
	expect_ok cmp "$TEST_TMP/data" "$BACK/$name"
done
