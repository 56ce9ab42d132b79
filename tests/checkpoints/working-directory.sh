#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program whose working directory becomes a checkpoint, and is replaced by the next save of it, goes on there.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *

os.mkdir(mnt + "/here")
os.chdir(mnt + "/here")
fd = os.open(".", os.O_RDONLY)
for seed in 1, 2, 3:
	content = {"__0_0.distcp": data(seed, 5000), "__1_0.distcp": data(seed, 6000), ".metadata": data(seed, 10)}
	save("__0_0.distcp", content["__0_0.distcp"])
	out = os.open("__1_0.distcp", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644, dir_fd=fd)
	os.write(out, content["__1_0.distcp"])
	os.close(out)
	save(".metadata.tmp", content[".metadata"])
	os.rename(".metadata.tmp", ".metadata")
	assert tree(".") == content == tree(mnt + "/here")
	wait_for(mnt + "/here")
	is_whole("here", content)
	assert tree(".") == content
END
umount_ckptfs
