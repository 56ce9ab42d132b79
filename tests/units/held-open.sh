#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file with the name of a checkpoint that is held open under a new name, and not written for open_max_s, becomes an
# ordinary one: on the backing as it is, and what is written goes there. Not one that replaces another, nor one that is
# written on.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
mount_ckptfs -o open_max_s=3,quiet_s=3600
program <<'END'
from units import *

old, part = data(1, 3 * MB), data(2, 2 * MB + 777)
log, other, busy = mnt + "/log.h5.pt", mnt + "/other.pt", mnt + "/busy.pt"
save(other, old)
wait_for(other)
replacing = os.open(other, os.O_WRONLY | os.O_TRUNC)
os.write(replacing, part)
written_on = os.open(busy, os.O_CREAT | os.O_WRONLY)
held = os.open(log, os.O_CREAT | os.O_RDWR)
inode_before = os.fstat(held).st_ino
os.write(held, part)
view = mmap.mmap(held, len(part))
view[0:4] = b"here"
writing = True
def write_on():
	while writing:
		os.write(written_on, b"x" * 1000)
		time.sleep(0.02)
writer = threading.Thread(target=write_on)
writer.start()
wait(lambda: "log.h5.pt" not in pending())
writing = False
writer.join()
os.close(written_on)
wait_for(busy)
verify(back + "/busy.pt")
part = b"here" + part[4:]
assert read(log) == part and inode(log) == inode_before
view.flush()
assert read(back + "/log.h5.pt") == part, "not on the backing as it is"
verify(back + "/log.h5.pt", 1) # no record
assert pending() == {"other.pt": "open"}, pending()
assert read(back + "/other.pt") == old

# It is a file like any other, for who has it open and for who opens it.
os.write(held, b"more")
view[4:8] = b"view"
view.flush()
part = part[:4] + b"view" + part[8:] + b"more"
assert read(log) == part and read(back + "/log.h5.pt") == part
view.close()
os.fsync(held)
os.close(held)
verify(back + "/log.h5.pt", 1)
code, told = ckptfs("wait", log)
assert code == 1 and "has no digest" in told, told

# A save that was killed while it is one leaves it as any filesystem would.
def killed():
	fd = os.open(mnt + "/days.pt", os.O_CREAT | os.O_WRONLY)
	os.write(fd, b"one")
	wait(lambda: os.path.exists(back + "/days.pt"))
	os.write(fd, b"two")
	os.kill(os.getpid(), signal.SIGKILL)

assert reap(child(killed)) == -signal.SIGKILL
assert read(back + "/days.pt") == read(mnt + "/days.pt") == b"onetwo"

# Saved anew it is a unit.
save(log, old)
wait_for(log)
verify(back + "/log.h5.pt")
os.close(replacing)
wait_for(other)
verify(back + "/other.pt")
assert not staging() and not failures(), (staging(), failures())
END
umount_ckptfs
