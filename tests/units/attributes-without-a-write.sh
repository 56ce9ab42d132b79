#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What is changed of a file while somebody has it open for writing is still there when that one closes it unwritten.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *

x = mnt + "/x.pt"
wrong = []

def check(what, got, want):
	if got != want:
		wrong.append((what, got, want))

for what in "fchmod", "chmod", "fchown", "setxattr", "fsetxattr":
	save(x, b"once")
	published()
	fd = os.open(x, os.O_RDWR)
	if what == "fchmod":
		os.fchmod(fd, 0o600)
	elif what == "chmod": # by whoever else
		assert reap(child(lambda: os.chmod(x, 0o600))) == 0
	elif what == "fchown":
		os.fchown(fd, 1200, 1300)
	elif what == "setxattr":
		os.setxattr(x, "user.note", b"1")
	else:
		os.setxattr(fd, "user.note", b"1")
	look = lambda p: (oct(os.stat(p).st_mode & 0o7777), os.stat(p).st_uid, os.listxattr(p)) if p == x else None
	before = look(x)
	os.close(fd)
	published()
	check(what, look(x), before)
	os.unlink(x)
assert not wrong, wrong
END
umount_ckptfs
