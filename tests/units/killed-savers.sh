#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A saver that is killed leaves the old file, whenever that happens: between the open and the first write, between
# writes, in a write that waits for room, in an fsync, after a copy within the kernel, and at any other moment.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
gated_fs 200 "$TEST_TMP/disk"
mount_ckptfs -o host_cache_size=8M "$TEST_TMP/disk"
program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
old, new = data(1, MB + 3), data(2, 30 * MB)
libc = ctypes.CDLL(None, use_errno=True)
save(x, old)
save(mnt + "/source.pt", new)
published()
number = inode(x)

def old_one():
	published()
	assert read(x) == old == read(on_backing) and inode(x) == number == inode(on_backing)
	verify(on_backing)
	assert names() == ["source.pt", "x.pt"], names()
	wait(lambda: not staging())
	wait(lambda: status()["cache"]["dirty"] == status()["cache"]["flying"] == 0)

def killed_after(main, path=x):
	"""Killed when main has done its part, and told so."""
	told = os.pipe()
	def run():
		main()
		os.write(told[1], b"x")
		signal.pause()
	pid = child(run)
	assert os.read(told[0], 1) == b"x"
	if os.path.exists(path):
		assert read(on_backing) == old
	os.kill(pid, signal.SIGKILL)
	assert reap(pid) == -9
	old_one()

def begin(path=x, flags=os.O_TRUNC):
	return os.open(path, os.O_CREAT | os.O_RDWR | flags)

def copied(size):
	fd, source = begin(), os.open(mnt + "/source.pt", os.O_RDONLY)
	done = 0
	while done < size:
		done += os.copy_file_range(source, fd, size - done)

def sent():
	fd, source = begin(), os.open(mnt + "/source.pt", os.O_RDONLY)
	assert os.sendfile(fd, source, 0, 3 * MB)

def stored():
	fd = begin(x, 0)
	m = mmap.mmap(fd, MB)
	m[:] = new[:MB]
	m.flush()
	stored.kept = m

killed_after(begin)
killed_after(lambda: begin(x, 0) and os.truncate(x, 5))
killed_after(lambda: os.write(begin(), b"x"))
killed_after(lambda: os.write(begin(), new[:5 * MB]))
killed_after(lambda: [os.write(fd, new[at:at + MB]) for fd in [begin()] for at in range(0, len(new), MB)])
killed_after(lambda: os.pwrite(begin(), b"x", 20 * MB))
killed_after(lambda: os.pwrite(begin(x, 0), b"x", 0))
killed_after(lambda: [os.write(fd, new[:MB]) and os.fsync(fd) for fd in [begin()]])
killed_after(lambda: [os.write(fd, new[:MB]) and os.close(os.dup(fd)) for fd in [begin()]])
killed_after(lambda: os.posix_fallocate(begin(), 0, 5 * MB))
killed_after(lambda: copied(5 * MB))
killed_after(sent)
if status()["features"]["direct_mmap"] == "yes":
	killed_after(stored)
for name in ".tmpAbC123", "x.pt.tmp", "new.pt":
	killed_after(lambda: begin(mnt + "/" + name), mnt + "/" + name)
	killed_after(lambda: os.write(begin(mnt + "/" + name), new[:MB]), mnt + "/" + name)
killed_after(lambda: os.write(begin(mnt + "/x.pt.tmp"), new[:MB]) and os.rename(mnt + "/x.pt.tmp", x))

# In a call that waits: for room in the cache, and for the storage.
def fill(fd):
	for at in range(0, len(new), MB):
		os.write(fd, new[at:at + MB])

for call, waits in (lambda fd: fill(fd), lambda s: s["cache"]["waiting"]), \
		(lambda fd: os.write(fd, new[:3 * MB]) and os.fsync(fd), lambda s: "FSYNC" in str(s["requests"]["waiting"])):
	read(on_backing) # from here on in memory
	with gate_closed():
		pid = child(lambda: call(begin()))
		wait(lambda: waits(status()))
		os.kill(pid, signal.SIGKILL)
		seconds = 3 * float(os.environ.get("TEST_SLOW") or 1)
		wait(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, seconds)
		assert read(x) == old
	old_one()

# At any moment, while it saves again and again: what is there is whole, and one that was saved before or then.
def content(nr):
	return (b"%08d" % nr) * (100000 + nr % 3 * 50000)

def on_and_on(first, way):
	nr = first
	while True:
		if way:
			save(x + ".tmp", content(nr))
			os.replace(x + ".tmp", x)
		else:
			save(x, content(nr))
		os.write(told[1], b"%08d" % nr)
		nr += 1

last = 0
for round in range(24):
	rng = random.Random(round)
	told = os.pipe()
	pid = child(lambda: on_and_on(last + 1, round % 2))
	closed = last
	for _ in range(rng.randrange(4)):
		closed = int(os.read(told[0], 8))
	for _ in range(rng.randrange(500)):
		os.stat(mnt)
	os.kill(pid, signal.SIGKILL)
	assert reap(pid) == -9
	os.close(told[1])
	while got := os.read(told[0], 8):
		closed = int(got)
	os.close(told[0])
	published()
	got = read(x)
	assert got == read(on_backing), round
	last = 0 if got == old else int(got[:8])
	assert got == (content(last) if last else old), (round, len(got))
	assert closed <= last <= closed + 1, (round, last, closed)
	if os.path.exists(x + ".tmp"):
		os.unlink(x + ".tmp")
published()
wait(lambda: not staging())
got = read(x)
assert last and got == content(last), (last, got[:8], len(got))
assert read(on_backing) == got, read(on_backing)[:8]
END
umount_ckptfs
