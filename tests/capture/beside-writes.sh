#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Captures beside writes and cuts of the same bytes, each of which waits for them, and can be interrupted; and in a cache that has
# no room: then they wait, and everything moves.
#
# timeout: 120

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=8M,chunk_size=256K
program <<'END'
from capture import *

s = Session(arena=MB)
tensor = data(1, 20 * MB)
s.register({1: 20 * MB})

def waits(call):
	"""A child that does it, and is in the daemon."""
	wait(lambda: status()["requests"]["in_flight"] == 0)
	pid = os.fork()
	if not pid:
		signal.signal(signal.SIGINT, lambda nr, frame: os._exit(0))
		os._exit(call() or 0)
	wait(lambda: status()["requests"]["in_flight"] == 1)
	return pid

def ended(pid):
	return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

with open(mnt + "/x.pt", "wb", 0) as f:
	s.write(f, (1, 0, 0, 2 * MB, tensor))
	os.pwrite(f.fileno(), b"beside", 3 * MB)
	for call in (lambda: os.pwrite(f.fileno(), b"later", MB) and 0, lambda: os.ftruncate(f.fileno(), MB), lambda: os.fsync(f.fileno()),
			lambda: s.write(f, (1, 5, 0, 10, tensor))):
		pid = waits(call)
		os.kill(pid, signal.SIGINT)
		assert ended(pid) == 0
	pid = waits(lambda: os.pwrite(f.fileno(), b"later", MB) and 0)
	s.capture()
	assert ended(pid) == 0
	s.write(f, (1, 4 * MB, 0, MB, tensor))
	pid = waits(lambda: os.ftruncate(f.fileno(), 4 * MB + 10))
	s.capture()
	assert ended(pid) == 0
published()
want = tensor[:MB] + b"later" + tensor[MB + 5:2 * MB] + bytes(MB) + b"beside" + bytes(MB - 6) + tensor[:10]
assert read(back + "/x.pt") == want
verify(back + "/x.pt")

# The cache is full of what is written plainly, while much more than it is captured.
done = []
def plain():
	for i in range(4):
		save(mnt + "/p%d.pt" % i, tensor[:8 * MB])
	done.append(True)
writer = threading.Thread(target=plain)
writer.start()
for i in range(3):
	with open(mnt + "/c%d.pt" % i, "wb", 0) as f:
		s.write(f, (1, 0, 0, 20 * MB, tensor))
s.capture()
writer.join()
assert done
published()
for i in range(3):
	assert read(back + "/c%d.pt" % i) == tensor
for i in range(4):
	assert read(back + "/p%d.pt" % i) == tensor[:8 * MB]

# Two sessions that write the same bytes, in another order each, and both have to wait first: one after the other.
def write_all(f, *captures):
	"""In a process of its own: Python has one call of this kind at a time."""
	pid = os.fork()
	if not pid:
		t = Session(arena=MB)
		t.register({1: 20 * MB})
		t.write(f, *captures)
		t.capture()
		os._exit(0)
	return pid
with open(mnt + "/o.pt", "wb", 0) as f:
	s.write(f, (1, MB, 0, MB, tensor))
	writers = []
	for captures in (((1, 0, 0, 10, tensor), (1, MB, 0, 10, tensor), (1, 3 * MB, 0, 10, tensor)),
			((1, 3 * MB, 0, 10, tensor), (1, MB + 100, 0, 10, tensor), (1, 0, 0, 10, tensor))):
		writers.append(write_all(f, *captures))
		wait(lambda: len(status()["sessions"]) == len(writers) + 1 and status()["requests"]["in_flight"] == len(writers))
	s.capture()
	for pid in writers:
		assert ended(pid) == 0
published()
o = read(back + "/o.pt")
assert len(o) == 3 * MB + 10 and all(o[at:at + 10] == tensor[:10] for at in (0, MB, MB + 100, 3 * MB)) and o[10:MB] == bytes(MB - 10)

# Two files of one batch of pieces, reported in another order than granted; a file that is removed meanwhile.
with open(mnt + "/a.pt", "wb", 0) as a, open(mnt + "/b.pt", "wb", 0) as b:
	s.write(a, (1, 0, 0, 300000, tensor))
	s.write(b, (1, 100, 7, 300000, tensor))
grants = s.next()
assert len(grants) == 4, grants
os.unlink(mnt + "/a.pt")
s.next(s.copy(grants)[::-1])
wait(lambda: s.stats()["pending"] == 0)
published()
assert read(back + "/b.pt") == bytes(100) + tensor[7:300007] and not os.path.exists(back + "/a.pt")
assert all(f["errno"] == "EINTR" for f in failures()), failures()
s.bye()
END
umount_ckptfs
