#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# cpu: 15
# What a program frees by unlink or a replacing rename is there for its next write, also on a backing that is nearly
# full.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mkdir "$TEST_TMP/small"
mount -t tmpfs -o size=24m tmpfs "$TEST_TMP/small" || skip "cannot mount a tmpfs"
mount_ckptfs "$TEST_TMP/small"
expect_ok "$PYTHON" - "$MNT" <<'END'
import os, sys
os.chdir(sys.argv[1])
block = b"x" * (20 << 20)
for i in range(100):
	with open("a", "wb", buffering=0) as f:
		assert f.write(block) == len(block), i
	if i % 2:
		open("a", "rb").read(10)
	os.unlink("a")
for i in range(100):
	with open("b%d" % i, "wb", buffering=0) as f:
		assert f.write(block) == len(block), i
	os.rename("b%d" % i, "c")
	open("empty", "w").close()
	os.rename("empty", "c")
END
umount_ckptfs
