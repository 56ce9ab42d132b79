#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# capture_bw, capture_check, and how many sessions there may be: a request of each may wait, and the mount must answer others.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
check() { # KEY VALUE
	CHECK=$2 program <<'END'
from capture import *
s = Session(arena=2 * MB)
assert s.check == int(os.environ["CHECK"]), s.check
s.bye()
END
}
mount_ckptfs -o host_cache_size=64M
check sample 1
umount_ckptfs
mount_ckptfs -o host_cache_size=64M,capture_check=all
check all 2
umount_ckptfs

# The second MiB after a quarter of an hour; a smaller piece that was granted first is no hindrance.
mount_ckptfs -o host_cache_size=64M,capture_check=off,capture_bw=1200
check off 0
program <<'END'
from capture import *
s = Session(arena=8 * MB)
t = Session(arena=8 * MB)
for session in s, t:
	session.register({1: 4 * MB})
with open(mnt + "/a.pt", "wb", 0) as f, open(mnt + "/b.pt", "wb", 0) as g:
	s.write(f, (1, 0, 0, 4 * MB, data(1, 4 * MB)))
	t.write(g, (1, 0, 0, 4 * MB, data(1, 4 * MB)))
	grants = s.next()
	assert len(grants) == 1, grants
	assert s.next(s.copy(grants)) == [] and s.next((), 200) == []
	assert t.next((), 200) == [] # of all sessions together
	assert s.stats()["free"] >= 7 * MB
END
umount_ckptfs

# Sixteen ranks share the cache but for an eighth, and a process of another job finds room beside them. So does a ninth one
# where no launcher says how many there are, and a plain save, in what is never lent.
mount_ckptfs -o host_cache_size=64M,chunk_size=64K
program <<'END'
from capture import *
ranks = [Session(rank=i, world=16, local_world=16) for i in range(16)]
assert all(s.slot * s.slots == 56 * MB // 16 for s in ranks), [s.slots for s in ranks]
stranger = Session()
assert stranger.slot * stranger.slots == 2 * MB, stranger.slots
for s in ranks + [stranger]:
	s.bye()
one = Session(rank=0, world=1, local_world=1)
assert one.slot * one.slots == 56 * MB
wait(lambda: status()["cache"]["lent"] == 56 * MB)
# Beside it, other jobs of one process each find room, too.
jobs = [Session(rank=0, world=1, local_world=1) for _ in range(3)]
assert [j.slot * j.slots for j in jobs] == [2 * MB, MB, MB // 2], [j.slots for j in jobs]
for j in jobs:
	j.bye()
one.bye()
several = [Session() for _ in range(9)]
assert [s.slot * s.slots for s in several[:3]] == [30 * MB, 15 * MB, 15 * MB // 2], [s.slots for s in several]
assert several[8].slots >= 2
with open(mnt + "/plain.pt", "wb", 0) as f:
	f.write(data(1, 20 * MB))
wait(lambda: os.path.exists(back + "/plain.pt"))
assert read(back + "/plain.pt") == data(1, 20 * MB)
# What a session had leaves with it, and the next one has all of its share.
for s in several:
	s.bye()
for _ in range(20):
	s = Session(rank=0, world=1, local_world=1)
	assert s.slot * s.slots == 56 * MB, s.slots
	s.bye()
END
umount_ckptfs

# A user with a limit keeps a part of it for plain writes.
mount_ckptfs -o host_cache_size=64M,cache_per_uid=16M
program <<'END'
from capture import *
s = Session(rank=0, world=1, local_world=1)
assert s.slot * s.slots == 12 * MB, s.slots
with open(mnt + "/plain.pt", "wb", 0) as f:
	f.write(data(1, 10 * MB))
wait(lambda: os.path.exists(back + "/plain.pt"))
END
umount_ckptfs

mount_ckptfs -o host_cache_size=64M,chunk_size=64K
program <<'END'
from capture import *
few = lambda: Session(arena=2 << 16)
mine = [few() for _ in range(48)]
fails(errno.EUSERS, few)
mine.pop().bye()
def another(): # the daemon hears of the close a moment later
	try:
		mine.append(few())
	except OSError as error:
		assert error.errno == errno.EUSERS, error
	return len(mine) == 48
wait(another)
if os.getuid() == 0: # others have theirs, up to a limit of all
	pid = os.fork()
	if not pid:
		os.setuid(12345)
		theirs = [few() for _ in range(48)]
		fails(errno.EUSERS, few)
		os._exit(0)
	assert os.waitpid(pid, 0)[1] == 0

# One request of a session waits at a time: the last. (In a child, as ioctl(2) holds the interpreter's lock.)
s = mine[0]
pid = os.fork()
if not pid:
	os._exit(0 if s.next((), 3600000) == [] else 1)
def ended():
	assert s.next((), 1) == []
	return os.waitpid(pid, os.WNOHANG) == (pid, 0)
wait(ended)
END
umount_ckptfs
