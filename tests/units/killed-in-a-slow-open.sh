#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program that is killed while its open of a checkpoint waits for the backing has saved nothing: no empty file gets a
# name, and none takes the place of what another program saved meanwhile.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 100 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
program <<'END'
from units import *

x = mnt + "/x.pt"
old, new = data(1, MB + 3), data(2, MB + 9)
os.mkdir(mnt + "/d")
save(x, old)
wait_for(x)
told, go = os.pipe(), os.pipe()

def saves():
	fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
	os.write(fd, new)
	os.write(told[1], b"x")
	os.read(go[0], 1)
	os.close(fd)
	os.write(told[1], b"x")

def waits(op):
	return any(w["op"] == op for w in status()["requests"]["waiting"])

saver = child(saves)
os.read(told[0], 1)
subprocess.run(["fsfreeze", "-f", back], check=True)
try:
	cuts = child(lambda: os.open(x, os.O_WRONLY | os.O_TRUNC))
	makes = child(lambda: os.open(mnt + "/d/new.pt", os.O_WRONLY | os.O_CREAT))
	wait(lambda: waits("OPEN") and waits("CREATE"))
	os.write(go[1], b"x") # closes its save
	os.read(told[0], 1)
	for pid in cuts, makes:
		os.kill(pid, signal.SIGKILL)
	assert [reap(pid) for pid in (cuts, makes)] == [-9, -9]
finally:
	subprocess.run(["fsfreeze", "-u", back], check=True)
assert reap(saver) == 0
wait(lambda: status()["requests"]["in_flight"] == 0 and status()["open_handles"] == 0)
published()
assert read(x) in (old, new) and read(back + "/x.pt") == read(x), len(read(x))
assert names(mnt + "/d") == os.listdir(back + "/d") == [], names(mnt + "/d")
END
umount_ckptfs
