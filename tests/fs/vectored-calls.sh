#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# writev and readv with many pieces of odd sizes, at odd offsets, move every byte to its place.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" <<'END'
import os, random, sys
random.seed(5)
for flags in (os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND):
	name = sys.argv[1] + "/f%x" % flags
	fd = os.open(name, os.O_CREAT | flags)
	want = b""
	for _ in range(6):
		pieces = [os.urandom(random.choice((0, 1, 13, 4095, 4096, 10007))) for _ in range(1024)]
		assert os.writev(fd, pieces) == sum(map(len, pieces))
		want += b"".join(pieces)
	rd = os.open(name, os.O_RDONLY)
	into = [bytearray(random.choice((1, 511, 4096, 30011))) for _ in range(1024)]
	n = os.preadv(rd, into, 777)
	total = sum(map(len, into))
	assert n == min(total, len(want) - 777), (n, total, len(want))
	assert b"".join(into)[:n] == want[777:777 + n]
	assert open(name, "rb").read() == want
	os.close(fd)
	os.close(rd)
END
umount_ckptfs
