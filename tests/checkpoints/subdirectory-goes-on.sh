#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program whose working directory, or directory descriptor, is below the top of a checkpoint that others change makes
# its files in what will be committed.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=1
program <<'END'
from checkpoints import *

unit = mnt + "/step-1"
content = begin(unit)
os.makedirs(unit + "/sub/deep")
save(unit + "/sub/deep/first", b"first")
end(unit, content)
content.update({"sub": None, "sub/deep": None, "sub/deep/first": b"first"})
wait_for(unit)
sub = os.open(unit + "/sub", os.O_RDONLY)
os.chdir(unit + "/sub/deep")
for i in range(3):
	pid = child(lambda: save(unit + "/late%d" % i, b"late"))
	assert reap(pid) == 0
	save("here%d" % i, b"here")
	fd = os.open("there%d" % i, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=sub)
	os.write(fd, b"there")
	os.close(fd)
	os.mkdir("dir%d" % i)
	save("dir%d/file" % i, b"file")
	os.unlink("first" if not i else "here%d" % (i - 1))
	content.update({"late%d" % i: b"late", "sub/deep/here%d" % i: b"here", "sub/there%d" % i: b"there",
		"sub/deep/dir%d" % i: None, "sub/deep/dir%d/file" % i: b"file"})
	del content["sub/deep/first" if not i else "sub/deep/here%d" % (i - 1)]
	assert tree(unit) == content, sorted(tree(unit))
	subprocess.run([os.environ["CKPTFS"], "commit", unit], check=True)
	wait_for(unit)
	is_whole("step-1", content)
assert failures() == [], failures()
os.chdir("/")
END
umount_ckptfs
