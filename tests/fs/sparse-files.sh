#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Holes stay holes (sparse writes, truncate, punching, SEEK_HOLE and SEEK_DATA), and fallocate does what it does on the
# backing: same blocks, same sizes, same errors.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
mkdir "$TEST_TMP/plain"
cat >"$TEST_TMP/use.py" <<'END'
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
os.chdir(sys.argv[1])
fd = os.open("f", os.O_CREAT | os.O_RDWR)
def show(what):
	os.fsync(fd)
	st = os.fstat(fd)
	segments, at = [], 0
	while at < st.st_size:
		try:
			data = os.lseek(fd, at, os.SEEK_DATA)
		except OSError as e:
			segments.append(errno.errorcode[e.errno])
			break
		at = os.lseek(fd, data, os.SEEK_HOLE)
		segments.append((data, at))
	print(what, st.st_size, st.st_blocks, segments, os.stat("f").st_blocks == st.st_blocks)
os.pwrite(fd, b"x" * 4096, 1 << 30)
show("sparse write")
os.pwrite(fd, b"x" * 100, 123456)
show("in the hole")
os.ftruncate(fd, 5 << 30)
show("truncate up")
for mode in (0, 1, 3, 0x10, 2, 0x40): # FUSE has no collapse and insert
	for off, length in ((0, 1 << 20), (1 << 30, 4096), (6 << 30, 65536), (100, 50), (0, 0), (-1, 5)):
		r = libc.fallocate(fd, mode, off, length)
		print(mode, off, length, r, errno.errorcode.get(ctypes.get_errno()) if r else "")
	show("mode %d" % mode)
	os.ftruncate(fd, 2 << 30)
os.ftruncate(fd, 0)
show("truncate down")
END
expect_ok "$PYTHON" "$TEST_TMP/use.py" "$TEST_TMP/plain"
want=$OUT
expect_ok "$PYTHON" "$TEST_TMP/use.py" "$MNT"
assert_eq "$OUT" "$want"
umount_ckptfs
