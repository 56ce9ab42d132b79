#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sizes of the cache that cannot be are refused with the limit and the way out; one that cannot be locked works, and
# says so.

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
BACK=$TEST_TMP/back MNT=$TEST_TMP/mnt
mkdir "$BACK" "$MNT"
refused 1 "host_cache_size of 4096 KiB is too small: the least is 8192 KiB, 8 chunks" -o host_cache_size=4M "$BACK" "$MNT"
refused 1 " MiB of memory of this host. Nothing was mounted; largest possible here: " -o host_cache_size=100000G "$BACK" "$MNT"
refused 1 "chunk_size of 102400 bytes is not valid: it is a power of two from 64 KiB to 8 MiB" -o chunk_size=100K "$BACK" "$MNT"
refused 1 "chunk_size of 16777216 bytes is not valid" -o chunk_size=16M "$BACK" "$MNT"
[ -n "${TSAN_OPTIONS-}" ] || ( # a sanitizer takes far more than that itself
	ulimit -v 600000
	expect_fail "$CKPTFS" mount -o host_cache_size=1G "$BACK" "$MNT"
	assert_contains "$OUT" "cannot take 1024 MiB of memory for the cache"
	assert_eq "$(ckptfs_mounts)" ""
) || exit 1

mount_ckptfs -o host_cache_size=512K,chunk_size=64K
assert_eq "$(status_of 'x["cache"]["size"], x["cache"]["chunk_size"]')" "(524288, 65536)"
head -c 3000000 /dev/urandom >"$TEST_TMP/bytes"
cp "$TEST_TMP/bytes" "$MNT/x.pt"
expect_ok "$CKPTFS" wait "$MNT/x.pt"
cmp "$BACK/x.pt" "$TEST_TMP/bytes" || die "wrong bytes"
umount_ckptfs

mount_ckptfs -o pin_host_cache=false
faulted() {
	[ "$(status_of 'x["cache"]["faulted"] == x["cache"]["size"]')" = True ]
}
wait_until 10 faulted
assert_eq "$(status_of 'x["cache"]["locked"], x["cache"]["not_locked"]')" "(False, '')"
umount_ckptfs
if [ "$(id -u)" = 0 ] && [ -z "${TSAN_OPTIONS-}" ]; then # under a sanitizer mlock does nothing
	user_setup 1001
	expect_ok as_user 1001 bash -c 'ulimit -l 64; exec "$@"' - "$CKPTFS" mount -o host_cache_size=32M "$BACK" "$MNT"
	told() {
		as_user 1001 "$CKPTFS" status "$MNT" | grep -q "the cache is not locked in memory"
	}
	wait_until 10 told
	expect_ok as_user 1001 "$CKPTFS" umount "$MNT"
fi
