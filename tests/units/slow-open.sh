#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# An open of a checkpoint for which the backing takes its time (a frozen one here; also the copy of a large file at r+, on
# slow storage) succeeds when that has answered, and what is saved then is published.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 300 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *

old, new = data(1, MB + 3), data(2, MB + 9)
opens = {"%d.pt" % nr: os.O_TRUNC if nr % 2 else 0 for nr in range(30)}
for name in opens:
	save(mnt + "/" + name, old)
	wait_for(mnt + "/" + name)

def save_over(name):
	fd = os.open(mnt + "/" + name, os.O_WRONLY | opens[name])
	os.write(fd, new)
	os.close(fd)

subprocess.run(["fsfreeze", "-f", back], check=True)
try:
	children = [child(lambda name=name: save_over(name)) for name in opens]
	wait(lambda: sum(w["op"] == "OPEN" and w["age_s"] > 6 for w in status()["requests"]["waiting"]) > 15)
finally:
	subprocess.run(["fsfreeze", "-u", back], check=True)
assert [reap(pid) for pid in children] == [0] * 30
published()
for name in opens:
	assert read(back + "/" + name) == new == read(mnt + "/" + name)
	verify(back + "/" + name)
assert failures() == [], failures()
END
umount_ckptfs
