#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Private, shared read-only and shared writable mappings, of new and of old files, over their ends, and after the
# descriptor is closed and the file unlinked.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" <<'END'
import mmap, os, sys
os.chdir(sys.argv[1])
body = os.urandom(10000)
open("f", "wb").write(body)
def mapped(flags, kind, prot):
	fd = os.open("f", flags)
	m = mmap.mmap(fd, 10000, kind, prot)
	os.close(fd)
	return m
private = mapped(os.O_RDONLY, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
readonly = mapped(os.O_RDONLY, mmap.MAP_SHARED, mmap.PROT_READ)
shared = mapped(os.O_RDWR, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
assert private[:] == readonly[:] == shared[:] == body
private[100:110] = b"private..."
assert readonly[:] == body and open("f", "rb").read() == body
shared[9990:] = b"0123456789"
assert readonly[9990:] == b"0123456789" == open("f", "rb").read()[9990:]
shared.flush()
try:
	mapped(os.O_RDONLY, mmap.MAP_SHARED, mmap.PROT_WRITE)
	raise AssertionError("a writable mapping of a file open for reading")
except PermissionError:
	pass
os.unlink("f")
shared[0:4] = b"gone"
assert readonly[0:4] == b"gone" and private[100:110] == b"private..."
# A new file of 1 GiB that only the mapping fills.
with open("new", "w+b") as f:
	f.truncate(1 << 30)
	m = mmap.mmap(f.fileno(), 1 << 30)
	for at in range(0, 1 << 30, 64 << 20):
		m[at] = 7
	m.close()
assert os.stat("new").st_size == 1 << 30 and os.stat("new").st_blocks < 1 << 16, os.stat("new")
with open("new", "rb") as f:
	for at in range(0, 1 << 30, 64 << 20):
		assert os.pread(f.fileno(), 2, at) == b"\x07\0"
END
umount_ckptfs
