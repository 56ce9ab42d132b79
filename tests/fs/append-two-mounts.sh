#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Processes that append to one file, on two mounts of its backing and on the backing itself, lose nothing and tear
# nothing; each sees its own lines in order.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
A=$MNT
mount_ckptfs "$BACK" "$TEST_TMP/second"
expect_ok "$PYTHON" - "$A" "$MNT" "$BACK" <<'END'
import os, sys
LINES = 1500
children = []
for i, top in enumerate(sys.argv[1:] * 2):
	pid = os.fork()
	if not pid:
		fd = os.open(top + "/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
		for n in range(LINES):
			os.write(fd, b"%d %d %s\n" % (i, n, b"=" * (n % 300)))
		os._exit(0)
	children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
for top in sys.argv[1:]:
	seen = [0] * 6
	for line in open(top + "/log", "rb"):
		i, n, rest = line.split(b" ")
		assert int(n) == seen[int(i)] and rest == b"=" * (int(n) % 300) + b"\n", (top, line)
		seen[int(i)] += 1
	assert seen == [LINES] * 6, (top, seen)
END
umount_ckptfs
umount_ckptfs "$A"
