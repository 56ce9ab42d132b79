#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Buffers written by handle from Python, without torch: what lands, what the barrier says of changes, what of misuse.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
mount_ckptfs -o "host_cache_size=8M,capture_check=all"
RANK=5 WORLD_SIZE=8 program <<'END'
import array, ctypes, errno, gc, mmap, os, signal, sys, threading, time
import ckptfs
from ckptfs import CheckpointError
mnt, back = os.environ["MNT"], os.environ["BACK"]
MB = 1 << 20

def fails(error, call, *args, **kwargs):
	try:
		call(*args, **kwargs)
	except CheckpointError as e:
		assert e.errno == error, (e.errno, str(e))
		return str(e)
	raise AssertionError("nothing was raised")

def data(seed, size):
	return (b"%08d" % seed * (size // 8 + 1))[:size]

def read(path):
	with open(path, "rb") as file:
		return file.read()

def wait(what):
	end = time.monotonic() + 60
	while not what():
		assert time.monotonic() < end
		time.sleep(0.01)

# No mount: the whole message.
told = fails(errno.ENOTTY, ckptfs.Session, os.environ["TEST_TMP"])
assert "lies in no mount of ckptfs: it is an ordinary directory on " in told and mnt in told.partition("; mounted now: ")[2], told
session = ckptfs.Session(mnt, arena_bytes=2 * MB)
assert ckptfs.session_of(mnt + "/x.pt") is session and session.alive and not session.pending

# All kinds of buffers, one larger than what is lent; one behind the other, or anywhere.
one, two = bytearray(data(1, 3 * MB)), array.array("d", [1.5] * 1000)
three, four = mmap.mmap(-1, 5 * MB), data(4, 100)
three[:] = data(3, 5 * MB)
with open(mnt + "/a.pt", "wb", 0) as file:
	assert session.write(file, {"one": one, "two": two, "three": three, "four": four}) == 8 * MB + 8100
	assert session.pending
	session.barrier()
	assert not session.pending
	want = bytes(one) + two.tobytes() + data(3, 5 * MB) + four
	one[:], three[:] = data(5, 3 * MB), data(6, 5 * MB) # may change from here on
assert read(mnt + "/a.pt") == want
with open(mnt + "/b.pt", "wb", 0) as file:
	session.write(file.fileno(), [("one", one, 5000), ("small", four, 0)], eager=True)
	assert not session.pending
	one[0:8] = b"changed "
assert read(mnt + "/b.pt") == four + bytes(4900) + data(5, 3 * MB)
one[0:8] = data(5, 8)

# It holds what is not captured, and lets go then.
with open(mnt + "/c.pt", "wb", 0) as file:
	session.write(file, {"gone": bytearray(data(7, 3 * MB))})
	gc.collect()
	session.barrier(landed=True)
assert read(mnt + "/c.pt") == data(7, 3 * MB) and not session._held
stats = session.stats()
assert stats.failed == 0 and stats.pending == 0 and stats.captured_bytes >= 8 * MB and stats.barriers >= 1, stats

# Buffers that cannot be resized while they are captured; and views with steps are refused.
with open(mnt + "/d.pt", "wb", 0) as file:
	session.write(file, {"pinned": one})
	try:
		one.extend(b"x")
	except BufferError:
		pass
	else:
		raise AssertionError("it moved while it was captured")
	session.barrier()
	one.extend(b"x")
	try:
		session.write(file, {"steps": memoryview(one)[::2]})
	except ValueError as error:
		assert "steps" in str(error)
	else:
		raise AssertionError

# A change before the barrier: the tensor is named, and the file does not come.
changed = 0
for i in range(50):
	big = bytearray(data(8, 6 * MB))
	path = mnt + "/stale-%d.pt" % i
	fd = os.open(path, os.O_WRONLY | os.O_CREAT)
	session.write(fd, {"layer.weight": big})
	ctypes.memset(ctypes.addressof((ctypes.c_char * len(big)).from_buffer(big)), 0x55, len(big))
	try:
		session.barrier()
	except CheckpointError as error:
		changed += 1
		assert error.errno == errno.ESTALE and "(rank 5)" in str(error), error
		assert path + " failed: layer.weight was changed before it was captured" in str(error), error
		assert "Call ckptfs.barrier() before you change weights outside optimizer.step()" in str(error), error
	try:
		os.close(fd)
	except OSError as error:
		assert changed and error.errno == errno.ESTALE
	name = os.path.basename(path)
	if changed:
		break
	assert read(path) == data(8, 6 * MB)
assert changed, "no change was seen in 50 saves"
wait(lambda: not os.path.exists(path))
assert not os.path.exists(back + "/" + name)

# After a failure the next is as good as any.
with open(mnt + "/e.pt", "wb", 0) as file:
	session.write(file, {"layer.weight": bytearray(data(9, MB))})
session.barrier(landed=True)

# Which tensors torch knows to have changed: each once, and none of a write that was refused.
class Counted:
	_version = 0
counted, memory = Counted(), ctypes.create_string_buffer(1000)
def source(name, at=0):
	return ckptfs.Source(name, ctypes.addressof(memory), 1000, at, counted)
with open(mnt + "/counted.pt", "wb", 0) as file:
	session.write_sources(file.fileno(), [source("w"), source("w", 1000), source("v", 2000)])
	text = fails(errno.EBADF, session.write_sources, os.open(mnt + "/e.pt", os.O_RDONLY), [source("refused")])
	counted._version = 1
	told = ckptfs.session._changed(session._versions, errno.ESTALE)
assert told.startswith("; torch knows that these were changed since: w, v. "), told
session.barrier()

# Which files are a checkpoint's.
from ckptfs import _lib
staged = _lib.library().ckptfs_is_staged
for path, want in (mnt + "/staged.pt", 1), (mnt + "/staged.bin", 0), (os.environ["TEST_TMP"] + "/staged.pt", 0):
	with open(path, "wb", 0) as file:
		assert staged(file.fileno()) == want, path
		file.write(b"x")
		assert staged(file.fileno()) == want, path
with open(mnt + "/staged.bin", "rb") as file:
	assert staged(file.fileno()) == -errno.EBADF and "Bad file descriptor" in _lib.told()
assert read(mnt + "/staged.pt") == read(mnt + "/staged.bin") == b"x"

# Misuse.
assert "x: " in fails(errno.EBADF, session.write, os.open(mnt + "/e.pt", os.O_RDONLY), {"x": bytearray(8)})
greedy = []
def take():
	while True:
		greedy.append(ckptfs.Session(mnt, arena_bytes=8 * MB))
assert "host_cache_size" in fails(errno.ENOMEM, take)
while greedy:
	greedy.pop().close()
# Also while another thread is asking the library: fates.py does so all the time.
held, go_on = threading.Event(), threading.Event()
def ask():
	with _lib._lock:
		held.set()
		go_on.wait()
asking = threading.Thread(target=ask)
asking.start()
held.wait()
child = os.fork()
if not child:
	try:
		signal.alarm(20)
		assert "another" in fails(errno.ECHILD, session.write, 1, {"x": bytearray(8)})
		fails(errno.ECHILD, session.barrier)
		assert not session.alive and ckptfs.session.sessions() == []
		other = ckptfs.session_of(mnt)
		assert other is not session
		with open(mnt + "/child.pt", "wb", 0) as file:
			other.write(file, {"x": bytearray(data(10, MB))})
		ckptfs.barrier()
		other.close()
		session.close()
		os._exit(0)
	finally:
		os._exit(1)
ended = os.waitpid(child, 0)[1]
go_on.set()
asking.join()
assert ended == 0, ended
assert read(mnt + "/child.pt") == data(10, MB)

# Threads.
def save(n):
	for i in range(10):
		with open(mnt + "/t%d.pt" % n, "wb", 0) as file:
			session.write(file, {"t%d" % n: bytearray(data(n * 100 + i, 300000))})
		session.barrier()
threads = [threading.Thread(target=save, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert all(read(mnt + "/t%d.pt" % n) == data(n * 100 + 9, 300000) for n in range(4))

with open(mnt + "/end.pt", "wb", 0) as file:
	session.write(file, {"end": bytearray(data(11, 5 * MB))})
assert "torch" not in sys.modules
# The end of the program waits for it.
END
assert_eq "$(head -c 8 "$MNT/end.pt")" 00000011
umount_ckptfs
assert_eq "$(stat -c %s "$BACK/end.pt")" $((5 << 20))
