#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# flock, POSIX and OFD locks between processes: exclusive, shared, ranges, waiting, and released by close and by kill -9.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
mount_ckptfs
expect_ok timeout 50 "$PYTHON" - "$MNT/f" <<'END'
import errno, fcntl, os, signal, struct, sys
name = sys.argv[1]
open(name, "wb").write(b"x" * 100)
F_OFD_SETLK, F_OFD_SETLKW = 37, 38
def flock(fd, kind, wait, lo=0, n=0):
	fcntl.flock(fd, kind | (0 if wait else fcntl.LOCK_NB))
def posix(fd, kind, wait, lo=0, n=0):
	fcntl.lockf(fd, kind | (0 if wait else fcntl.LOCK_NB), n, lo)
def ofd(fd, kind, wait, lo=0, n=0):
	code = {fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}[kind]
	fcntl.fcntl(fd, F_OFD_SETLKW if wait else F_OFD_SETLK, struct.pack("hhqqi4x", code, 0, lo, n, 0))
def in_child(work):
	r, w = os.pipe()
	pid = os.fork()
	if not pid:
		try:
			work(w)
			os._exit(0)
		except OSError as e:
			os._exit(e.errno)
	os.close(w)
	return pid, r
def tries(lock, kind, lo=0, n=0):
	def work(_):
		lock(os.open(name, os.O_RDWR), kind, False, lo, n)
	pid, r = in_child(work)
	os.close(r)
	return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
BUSY = (errno.EAGAIN, errno.EACCES)
for lock in (flock, posix, ofd):
	for ending in ("unlock", "close", "kill"):
		def holder(w):
			fd = os.open(name, os.O_RDWR)
			lock(fd, fcntl.LOCK_EX, True, 10, 10)
			os.write(w, b"locked")
			signal.sigwait([signal.SIGUSR1])
			if ending == "unlock":
				lock(fd, fcntl.LOCK_UN, True, 10, 10)
			else:
				os.close(fd)
			os.write(w, b"free")
			signal.pause()
		signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
		pid, r = in_child(holder)
		assert os.read(r, 10) == b"locked"
		assert tries(lock, fcntl.LOCK_EX) in BUSY and tries(lock, fcntl.LOCK_SH, 15, 1) in BUSY, (lock, ending)
		if lock is not flock:
			assert tries(lock, fcntl.LOCK_EX, 20, 5) == 0, "another range"
		def waiter(w):
			fd = os.open(name, os.O_RDWR)
			os.write(w, b"waiting")
			lock(fd, fcntl.LOCK_EX, True)
			os.write(w, b"got")
		wpid, wr = in_child(waiter)
		assert os.read(wr, 10) == b"waiting"
		if ending == "kill":
			os.kill(pid, signal.SIGKILL)
		else:
			os.kill(pid, signal.SIGUSR1)
			assert os.read(r, 10) == b"free"
		assert os.read(wr, 10) == b"got", (lock, ending)
		assert os.waitpid(wpid, 0)[1] == 0
		if ending != "kill":
			os.kill(pid, signal.SIGKILL)
		os.waitpid(pid, 0)
		assert tries(lock, fcntl.LOCK_EX) == 0
	fd = os.open(name, os.O_RDWR)
	lock(fd, fcntl.LOCK_SH, True)
	assert tries(lock, fcntl.LOCK_SH) == 0 and tries(lock, fcntl.LOCK_EX) in BUSY
	os.close(fd)
END
umount_ckptfs
