#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# umount saves what is closed first, with progress; where that takes too long it stays mounted; what cannot be saved
# is told, with exit status 1.
#
# needs: root

. "${SRC:?}/tests/cli/verbs.sh"

needs_fuse
head -c 9000000 /dev/urandom >"$TEST_TMP/bytes"
mount_ckptfs -o flush_bw=1M
cp "$TEST_TMP/bytes" "$MNT/x.pt"
expect_fail "$CKPTFS" umount --timeout 1 "$MNT"
assert_contains "$OUT" "still has data that is not on the backing, and the time is up"
assert_contains "$(ckptfs_mounts)" "$MNT"
cmp "$MNT/x.pt" "$TEST_TMP/bytes" || die "the mount shows other bytes"
expect_ok "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "files left to save"
cmp "$BACK/x.pt" "$TEST_TMP/bytes" || die "not saved when umount returned"
assert_eq "$(find "$BACK" -name '.ckptfs-*')" "" "staging left"

# SIGTERM, and umount(8), which does not wait: the daemon saves all the same.
for how in term umount; do
	mount_ckptfs -o flush_bw=8M
	daemon=$(daemon_pid)
	cp "$TEST_TMP/bytes" "$MNT/$how.pt"
	if [ "$how" = term ]; then
		kill "$daemon"
	else
		umount "$MNT"
	fi
	wait_until 20 _gone "$daemon"
	cmp "$BACK/$how.pt" "$TEST_TMP/bytes" || die "not saved after $how"
done

# A backing that is full by then.
loop_fs ext4 200 "$TEST_TMP/disk"
mount_ckptfs -o flush_bw=1M "$TEST_TMP/disk"
expect_ok python3 - "$MNT/plain" "$TEST_TMP/disk/filler" <<'END'
import errno, os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for _ in range(6):
	os.write(fd, b"x" * (1 << 20))
with open(sys.argv[2], "wb", buffering=0) as filler:
	try:
		while True:
			filler.write(bytes(1 << 20))
	except OSError as e:
		assert e.errno == errno.ENOSPC, e
try:
	os.close(fd)
	sys.exit("close of a file that did not fit was fine")
except OSError as e:
	assert e.errno == errno.ENOSPC, e
os.unlink(sys.argv[2])
END
assert_contains "$(cat "$MNT/.ckptfs/failures.json")" "'plain' could not be written to the backing"
rm "$MNT/plain"
head -c 1000000 "$TEST_TMP/bytes" >"$TEST_TMP/old"
cp "$TEST_TMP/old" "$MNT/old.pt"
expect_ok "$CKPTFS" wait "$MNT/old.pt"
head -c 9000000 /dev/urandom >"$MNT/old.pt"
dd if=/dev/zero of="$TEST_TMP/disk/filler" bs=1M status=none 2>/dev/null
expect_fail "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "is unmounted, but not everything could be saved: 'old.pt' could not be written to the backing: No space left"
cmp "$TEST_TMP/disk/old.pt" "$TEST_TMP/old" || die "the old file is not whole"
