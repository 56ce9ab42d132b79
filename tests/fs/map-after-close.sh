#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that its writer has closed can be mapped at once, also where the kernel cannot map what is open for writing
# only: the daemon is told of the close a moment after the writer goes on.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
export CKPTFS_FEATURES_OFF=passthrough,direct_mmap
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" <<'END'
import mmap, os, sys
children = []
for child in range(8):
	pid = os.fork()
	if pid:
		children.append(pid)
		continue
	name = "%s/%d" % (sys.argv[1], child)
	for n in range(1000):
		fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
		os.write(fd, b"%08d" % n)
		os.close(fd)
		fd = os.open(name, os.O_RDONLY)
		with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as m:
			assert m[:] == b"%08d" % n, m[:]
		os.close(fd)
	os._exit(0)
for pid in children:
	assert os.waitpid(pid, 0)[1] == 0, "one failed"
END
umount_ckptfs
