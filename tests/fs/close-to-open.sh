#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Two mounts of one backing: what one has closed, renamed, removed, made, truncated or chmoded, the other's next open
# or stat sees, thousands of times, also when size and time stamp do not change, and while the other has it cached.
#
# timeout: 90
# cpu: 15

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
A=$MNT
mount_ckptfs "$BACK" "$TEST_TMP/second"
expect_ok "$PYTHON" - "$A" "$MNT" "$BACK" <<'END'
import mmap, os, random, sys
a, b, back = sys.argv[1:]
random.seed(7)
def read(path):
	fd = os.open(path, os.O_RDONLY)
	try:
		return os.read(fd, 1 << 20)
	finally:
		os.close(fd)
def mapped(path):
	fd = os.open(path, os.O_RDONLY)
	try:
		return mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:]
	finally:
		os.close(fd)
def write(path, data, flags=os.O_TRUNC):
	fd = os.open(path, os.O_CREAT | os.O_WRONLY | flags, 0o644)
	assert os.write(fd, data) == len(data)
	os.close(fd)
def missing(path):
	return not os.path.exists(path)

for i in range(500):
	# Either mount writes, the other or the backing reads; sometimes the backing itself is written.
	w, r = random.sample((a, b, back), 2)
	if r == back:
		r = b if w == a else a
	data = b"%06d" % i * random.choice((1, 700, 20000))
	assert missing(r + "/f"), i
	write(w + "/f", data)
	assert read(r + "/f") == data, ("create", i)
	data = bytes(255 - x for x in data)
	write(w + "/f", data, 0)
	assert read(r + "/f") == data, ("rewrite same size", i)
	data = bytes(255 - x for x in data)
	write(w + "/f", data, 0)
	assert mapped(r + "/f") == data, ("rewrite same size, mapped", i)
	write(w + "/f", b"tail", os.O_APPEND)
	assert os.stat(r + "/f").st_size == len(data) + 4, ("append stat", i)
	assert read(r + "/f") == data + b"tail", ("append", i)
	os.truncate(w + "/f", 3)
	assert os.stat(r + "/f").st_size == 3 and read(r + "/f") == data[:3], ("truncate", i)
	os.chmod(w + "/f", 0o600 | i % 8)
	assert os.stat(r + "/f").st_mode & 0o777 == 0o600 | i % 8, ("chmod", i)
	write(w + "/g", b"new %d" % i)
	os.rename(w + "/g", w + "/f")
	assert missing(r + "/g") and read(r + "/f") == b"new %d" % i, ("replace", i)
	os.unlink(w + "/f")
	write(w + "/f", b"another")
	assert read(r + "/f") == b"another", ("unlink, create", i)
	os.unlink(w + "/f")
	assert missing(r + "/f"), ("unlink", i)
	try:
		read(r + "/f")
		raise AssertionError(("opened", i))
	except FileNotFoundError:
		pass
	# Directories: removed and made anew while the reader has the old one cached, moved, filled.
	os.mkdir(w + "/d")
	write(w + "/d/x", b"1")
	assert os.listdir(r + "/d") == ["x"] and read(r + "/d/x") == b"1", ("directory", i)
	os.unlink(w + "/d/x")
	os.rmdir(w + "/d")
	os.mkdir(w + "/d", 0o700)
	write(w + "/d/y", b"2")
	assert read(r + "/d/y") == b"2" and os.listdir(r + "/d") == ["y"], ("directory made anew", i)
	assert missing(r + "/d/x")
	os.unlink(w + "/d/y")
	os.rmdir(w + "/d")
END
umount_ckptfs
umount_ckptfs "$A"
