#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tensors that are written by handle: the file has its size at once, its bytes when they were captured, not before that its
# name; beside plain writes, at any offset, larger than the memory that is lent.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
program <<'END'
from capture import *

s = Session(rank=0, world=1, arena=4 * MB)
assert s.slot * s.slots == 4 * MB, (s.slot, s.slots)
assert s.socket not in os.listdir(CONTROL) and not os.path.exists(CONTROL + "/" + s.socket)
assert status()["cache"]["lent"] == 4 * MB
sizes = {1: 10 * MB + 3, 2: 5, 3: MB, 4: 0}
tensors = {i: data(i, n) for i, n in sizes.items()}
s.register(sizes)

with open(mnt + "/x.pt", "wb", 0) as f:
	f.write(b"head")
	s.write(f, *((i, off, 0, sizes[i], tensors[i]) for i, off in ((1, 4), (2, 12 * MB), (3, 11 * MB - 1), (4, 0))))
	assert os.fstat(f.fileno()).st_size == 12 * MB + 5
	os.pwrite(f.fileno(), b"tail", 13 * MB)
want = bytearray(13 * MB + 4)
want[:4], want[4:4 + sizes[1]] = b"head", tensors[1]
want[11 * MB - 1:12 * MB - 1] = tensors[3]
want[12 * MB:12 * MB + 5] = tensors[2]
want[13 * MB:] = b"tail"
want = bytes(want)
assert os.stat(mnt + "/x.pt").st_size == len(want)
assert pending() == {"x.pt": "sealed"} and not os.path.exists(back + "/x.pt")
with open(mnt + "/x.pt", "rb", 0) as f: # what is there already
	assert f.read(4) == b"head" and os.pread(f.fileno(), 4, 13 * MB) == b"tail"
s.capture()
assert read(mnt + "/x.pt") == want
published()
assert read(back + "/x.pt") == want
verify(back + "/x.pt")
got = s.stats()
assert got["captures"] == 4 and got["landed"] == sum(sizes.values()) and got["pending"] == 0 and got["free"] == 4 * MB, got

code, told = ckptfs("status", mnt)
assert code == 0 and "1 trainers write tensors by handle" in told and "rank 0" in told and "4 tensors; 11.0 MiB captured, 0.0 still" in told, told

# A part of a tensor; a reader of bytes that are to come waits for them, and gets them.
with open(mnt + "/y.pt", "wb", 0) as f:
	s.write(f, (1, 0, MB + 7, 2 * MB, tensors[1]))
pid = os.fork()
if not pid:
	os._exit(0 if read(mnt + "/y.pt") == tensors[1][MB + 7:3 * MB + 7] else 1)
wait(lambda: any(r["op"] == "READ" for r in status()["requests"]["waiting"]) or status()["requests"]["in_flight"] > 1)
assert os.waitpid(pid, os.WNOHANG) == (0, 0)
s.capture()
assert os.waitpid(pid, 0)[1] == 0
published()

# A checkpoint of several files, of which the plain one is done first.
os.mkdir(mnt + "/step-1")
with open(mnt + "/step-1/__0_0.distcp", "wb", 0) as f:
	s.write(f, (3, 0, 0, MB, tensors[3]))
	s.write(f, (1, MB, 0, sizes[1], tensors[1]))
save(mnt + "/step-1/.metadata.tmp", b"m")
os.rename(mnt + "/step-1/.metadata.tmp", mnt + "/step-1/.metadata")
assert not os.path.exists(back + "/step-1")
s.capture()
wait_for(mnt + "/step-1")
assert read(back + "/step-1/__0_0.distcp") == tensors[3] + tensors[1]
verify(back + "/step-1")

# The time of a file is that of its writes, or the one that was set then.
with open(mnt + "/t.pt", "wb", 0) as f:
	s.write(f, (1, 0, 0, MB, tensors[1]))
os.utime(mnt + "/t.pt", (1000, 1000))
s.capture()
published()
assert os.stat(back + "/t.pt").st_mtime == os.stat(mnt + "/t.pt").st_mtime == 1000

# What is none that is staged is written by its program.
with open(mnt + "/plain.bin", "wb", 0) as f:
	fails(errno.EOPNOTSUPP, s.write, f, (1, 0, 0, 10, tensors[1]))
s.bye()
wait(lambda: status()["cache"]["lent"] == 0)
assert failures() == []
END
umount_ckptfs
