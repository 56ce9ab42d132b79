#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that is unlinked, or replaced by a rename, while it is open goes on living: by read, write, truncate, chmod,
# stat, mapping, and reopened through /proc/self/fd; then its space is free.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" <<'END'
import mmap, os, sys
os.chdir(sys.argv[1])
for how in ("unlink", "replace"):
	fd = os.open("f", os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o640)
	ro = os.open("f", os.O_RDONLY)
	os.write(fd, b"before")
	m = mmap.mmap(ro, 6, prot=mmap.PROT_READ) if how == "unlink" else None
	if how == "unlink":
		os.unlink("f")
		assert not os.path.exists("f")
	else:
		open("g", "w").write("other")
		os.rename("g", "f")
	st = os.fstat(fd)
	assert st.st_nlink == 0 and st.st_size == 6, st
	os.pwrite(fd, b"after!", 0)
	assert os.pread(ro, 10, 0) == b"after!"
	assert m is None or m[:] == b"after!"
	again = os.open("/proc/self/fd/%d" % ro, os.O_RDWR)
	os.pwrite(again, b"again.", 6)
	assert os.pread(ro, 20, 0) == b"after!again."
	os.ftruncate(fd, 3)
	os.fchmod(fd, 0o600)
	os.utime(fd, (5, 6))
	os.fsync(fd)
	st = os.fstat(again)
	assert (st.st_size, st.st_mode & 0o777, st.st_mtime) == (3, 0o600, 6), st
	assert how == "unlink" or open("f").read() == "other"
	for one in (fd, ro, again):
		os.close(one)
os.mkdir("dir")
inside = os.open("dir", os.O_RDONLY)
os.rmdir("dir")
assert os.listdir(inside) == [] and os.fstat(inside).st_nlink == 0
try:
	os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=inside)
	raise AssertionError("a file in a removed directory")
except FileNotFoundError:
	pass
END
wait_until 10 status_is "s['open_handles'] == 0"
umount_ckptfs
