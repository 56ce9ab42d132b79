#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A full backing: the write itself says ENOSPC, what was there stays intact, failures.json and the log name the file,
# and once something is deleted everything works again. On a small ext4 and on a small tmpfs.
#
# timeout: 90
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

fill_up() {
	BACK=$1 MNT=$2 LOG=$2.log
	mkdir "$MNT"
	"$CKPTFS" mount -f -o host_cache_size=64M "$BACK" "$MNT" 2>"$LOG" &
	wait_until 20 mountpoint -q "$MNT"
	wait_until 20 status_is True
	expect_ok "$PYTHON" - "$MNT" <<'END'
import errno, hashlib, mmap, os, sys
mnt = sys.argv[1]
keep = os.urandom(1 << 20)
with open(mnt + "/keep", "wb") as f:
	f.write(keep)
	os.fsync(f.fileno())
fd = os.open(mnt + "/big", os.O_CREAT | os.O_WRONLY)
block, total = os.urandom(1 << 20), 0
while True:
	try:
		n = os.write(fd, block)
	except OSError as e:
		assert e.errno == errno.ENOSPC, e
		break
	assert n > 0
	total += n
	assert total < 100 << 20, "never full"
os.close(fd) # the error was told; close has none
assert os.stat(mnt + "/big").st_size == total, (os.stat(mnt + "/big").st_size, total)
with open(mnt + "/big", "rb") as f:
	while part := f.read(1 << 20):
		assert part == block[:len(part)]
assert open(mnt + "/keep", "rb").read() == keep
st = os.statvfs(mnt)
assert st.f_bavail * st.f_frsize < 1 << 20, st
for make in (lambda: os.posix_fallocate(os.open(mnt + "/keep", os.O_WRONLY), 0, 64 << 20),
		lambda: open(mnt + "/keep", "ab", buffering=0).write(block) == len(block) or os.write(
			os.open(mnt + "/keep", os.O_WRONLY | os.O_APPEND), block)):
	try:
		make()
		raise AssertionError("there was room")
	except OSError as e:
		assert e.errno == errno.ENOSPC, e
os.truncate(mnt + "/keep", len(keep))
os.unlink(mnt + "/big")
with open(mnt + "/again", "wb", buffering=0) as f:
	for i in range(8):
		assert f.write(block) == len(block)
	os.fsync(f.fileno())
assert open(mnt + "/again", "rb").read() == block * 8
assert open(mnt + "/keep", "rb").read() == keep
END
	assert_eq "$(failures_of "[(x['errno'], x['path'], x['op'], x['count'] >= 1) for x in f if x['path'] == 'big']")" \
		"[('ENOSPC', 'big', 'write', True)]"
	expect_ok grep "write of 'big' failed on the backing: No space left on device" "$LOG"
	umount_ckptfs
}

needs_fuse
loop_fs ext4 32 "$TEST_TMP/disk"
fill_up "$TEST_TMP/disk" "$TEST_TMP/mnt1"
mkdir "$TEST_TMP/tmpfs"
mount -t tmpfs -o size=24m tmpfs "$TEST_TMP/tmpfs" || skip "cannot mount a tmpfs"
fill_up "$TEST_TMP/tmpfs" "$TEST_TMP/mnt2"
