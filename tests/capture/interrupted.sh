#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Calls that wait are ended by signals, and then have done nothing: no grant is lost, nothing is written, nothing has grown.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
program <<'END'
from capture import *

class Signal(Exception):
	pass

def on_alarm(number, frame):
	raise Signal

def interrupted(call, *args):
	"""It waits until a signal comes."""
	began = status()["requests"]["in_flight"]
	pid = os.fork()
	if not pid:
		wait(lambda: status()["requests"]["in_flight"] > began)
		os.kill(os.getppid(), signal.SIGALRM)
		os._exit(0)
	try:
		call(*args)
		raise AssertionError("it did not wait")
	except Signal:
		pass
	os.waitpid(pid, 0)

signal.signal(signal.SIGALRM, on_alarm)
s = Session(arena=4 * MB)
tensor = data(1, MB)
s.register({1: MB})
with open(mnt + "/x.pt", "wb", 0) as f:
	f.write(b"head")
	for i in range(5):
		interrupted(s.next, (), 600000)
		s.write(f, (1, 4 + i * MB, 0, MB, tensor))
		s.capture()
published()
assert read(back + "/x.pt") == b"head" + 5 * tensor

# A batch of which one has to wait, the first is far behind the end of the file.
with open(mnt + "/y.pt", "wb", 0) as f:
	f.write(b"head")
	s.write(f, (1, 4, 0, MB, tensor))
	for i in range(3):
		interrupted(s.write, f, (1, 20 * MB, 0, MB, tensor), (1, 10, 0, 10, tensor))
		s.capture()
		assert os.fstat(f.fileno()).st_size == 4 + MB * (i + 1)
		s.write(f, (1, 4 + MB * (i + 1), 0, MB, tensor), (1, 4, 0, 20, tensor))
	s.capture()
published()
assert read(back + "/y.pt") == b"head" + 4 * tensor
assert s.stats()["captures"] == 5 + 1 + 3 * 2 and s.stats()["pending"] == 0
s.bye()
assert all(x["errno"] == "EINTR" for x in failures()), failures()
END
umount_ckptfs
