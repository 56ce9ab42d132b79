#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A file that is written through several descriptors (opened twice, duplicated, inherited, mapped) is published when the
# last of them is closed, in whatever order that happens, with the bytes of all; the old one stays until then.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 200 "$TEST_TMP/disk"

closings() {
	mount_ckptfs "$TEST_TMP/disk"
	program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"
old, new = data(1, MB + 3), data(2, 2 * MB + 5)
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_int64]
libc.munmap.argtypes = libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.msync.argtypes += [ctypes.c_int]
half = len(new) // 2

def fresh():
	save(x, old)
	wait_for(x)

def not_yet():
	"""Nothing comes of it, and the mount shows what was written."""
	assert pending(), "it is over already"
	assert read(on_backing) == old

def there(want=new):
	wait(lambda: not pending())
	assert read(on_backing) == want == read(x)
	verify(on_backing)
	assert not staging()

def opened_twice():
	return os.open(x, os.O_WRONLY | os.O_TRUNC), os.open(x, os.O_WRONLY)

def duplicated():
	fd = os.open(x, os.O_WRONLY | os.O_TRUNC)
	return fd, os.dup(fd)

def duplicated_high():
	fd = os.open(x, os.O_RDWR | os.O_TRUNC)
	return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 500), fd

# In one process.
for make in opened_twice, duplicated, duplicated_high:
	for first in 0, 1:
		for writes in "both", "other", "first":
			fresh()
			fds = make()
			parts = {"both": (0, half), "other": (None, 0), "first": (0, None)}[writes]
			for which, at in zip((fds[first], fds[1 - first]), parts):
				if at is not None:
					os.pwrite(which, new[at:] if writes != "both" else new[at:at + half + 1], at)
			os.close(fds[first])
			not_yet()
			if writes == "both": # goes on where the first left off
				os.pwrite(fds[1 - first], b"later", 5)
				not_yet()
			os.close(fds[1 - first])
			there(new[:5] + b"later" + new[10:] if writes == "both" else new)

# In two processes, each with a descriptor of its own, or with one for both.
for make in opened_twice, duplicated:
	for child_first in True, False:
		fresh()
		fds = make()
		go, told = os.pipe(), os.pipe()
		def rest():
			os.close(fds[0])
			os.pwrite(fds[1], new[half:], half)
			os.write(told[1], b"x")
			os.read(go[0], 1)
			os.close(fds[1])
		pid = child(rest)
		os.close(fds[1])
		os.pwrite(fds[0], new[:half], 0)
		os.read(told[0], 1)
		not_yet()
		if child_first:
			os.write(go[1], b"x")
			assert reap(pid) == 0
			not_yet()
			os.close(fds[0])
		else:
			os.close(fds[0])
			not_yet()
			os.write(go[1], b"x")
			assert reap(pid) == 0
		there()

# By a program that was started with it.
fresh()
with open(x, "wb") as f:
	f.write(new[:half])
	f.flush()
	with tempfile.TemporaryFile() as source:
		source.write(new[half:])
		source.flush()
		source.seek(0)
		subprocess.run(["cat"], stdin=source, stdout=f, check=True)
	not_yet()
there()

# Mapped, with stores after the descriptor was closed: numpy.memmap, and mmap(2) itself.
def map_it(fd, size):
	at = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
	assert at != ctypes.c_void_p(-1).value, errno.errorcode[ctypes.get_errno()]
	return at

def unmapped():
	wait(lambda: status()["open_handles"] == 0)

for case in "made", "changed", "written", "kept":
	for ends in "munmap", "msync", "exit":
		fresh()
		want = bytearray(new if case == "made" else old)
		def stores():
			fd = os.open(x, os.O_RDWR | (os.O_TRUNC if case == "made" else 0))
			if case == "made": # as memmap does with mode w+
				os.pwrite(fd, b"\0", len(want) - 1)
			if case == "written":
				os.pwrite(fd, want[:MB // 2], 0)
			at = map_it(fd, len(want))
			if case == "kept":
				os.close(os.dup(fd))
			else:
				os.close(fd)
			assert read(on_backing) == old
			ctypes.memmove(at, bytes(want), len(want))
			ctypes.memmove(at + 4000, b"later store", 11)
			if ends == "msync":
				assert libc.msync(at, len(want), 4) == 0
				ctypes.memmove(at + MB // 2, b"last store", 10)
			if ends != "exit":
				assert libc.munmap(at, len(want)) == 0
		want[4000:4011] = b"later store"
		if ends == "msync":
			want[MB // 2:MB // 2 + 10] = b"last store"
		assert reap(child(stores)) == 0
		unmapped()
		wait(lambda: not pending())
		assert read(x) == want, (case, ends)
		assert read(on_backing) == want, (case, ends)
		verify(on_backing)

try:
	import numpy
except ImportError:
	print("without numpy")
else:
	fresh()
	array = numpy.memmap(x, dtype="u1", mode="w+", shape=(len(new),))
	array[:half] = numpy.frombuffer(new[:half], "u1")
	assert read(on_backing) == old
	array[half:] = numpy.frombuffer(new[half:], "u1")
	del array
	unmapped()
	there()
assert failures() == [], failures()
END
	umount_ckptfs
	rm "$TEST_TMP/disk/x.pt"
}

closings
