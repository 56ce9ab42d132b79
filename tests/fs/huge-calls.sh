#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# heavy: check-long
# One write call and one read call of 2 GiB: each moves what Linux moves at once, 2 GiB less a page.
#
# timeout: 120
# serial
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mkdir "$TEST_TMP/memory"
mount -t tmpfs -o size=3g tmpfs "$TEST_TMP/memory" || skip "cannot mount a tmpfs"
mount_ckptfs "$TEST_TMP/memory"
run "$PYTHON" - "$MNT" <<'END'
import mmap, os, sys
def field(name):
	return next(int(l.split()[1]) for l in open("/proc/meminfo") if l.startswith(name)) << 10
if field("MemAvailable:") < 7 << 30:
	print("needs 7 GiB of free memory")
	sys.exit(77)
size = 2 << 30
most = size - 4096
data = mmap.mmap(-1, size)
marks = list(range(0, most, 99 << 20)) + [most - 8, (1 << 30) - 3]
for at in marks:
	data[at:at + 8] = at.to_bytes(8, "little")
fd = os.open(sys.argv[1] + "/huge", os.O_CREAT | os.O_RDWR)
n = os.write(fd, data)
assert n == most, n
for at in marks:
	assert os.pread(fd, 8, at) == at.to_bytes(8, "little"), at
into = mmap.mmap(-1, size)
n = os.preadv(fd, [into], 0)
assert n == most, n
for at in marks:
	assert into[at:at + 8] == at.to_bytes(8, "little"), at
os.close(fd)
del data, into
fd = os.open(sys.argv[1] + "/huge", os.O_RDONLY)
into = mmap.mmap(-1, size)
n = os.preadv(fd, [into], 0)
assert n == most, n
for at in marks:
	assert into[at:at + 8] == at.to_bytes(8, "little"), at
os.unlink(sys.argv[1] + "/huge")
END
[ "$RC" != 77 ] || skip "$OUT"
assert_eq "$RC" 0 "$OUT"
umount_ckptfs
