#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ckptfs_wait, _commit, _abandon and _latest, by a program that has no session.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M,order_timeout_s=2
umask 022
cat >"$TEST_TMP/follow.py" <<'END'
import ctypes
from capture import *

lib = ctypes.CDLL(os.environ["BUILD"] + "/lib/libckptfs.so", use_errno=True)
lib.ckptfs_error.restype = ctypes.c_char_p
lib.ckptfs_wait.argtypes = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64
lib.ckptfs_latest.argtypes = ctypes.c_char_p, ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t
CAPTURED, DURABLE, COMMITTED, NEVER = 2, 3, 4, 6
FOREVER = (1 << 64) - 1

def why():
	return lib.ckptfs_error(None).decode()
def follow(path, state=COMMITTED, seconds=0):
	return -lib.ckptfs_wait(path.encode(), state, int(seconds * 1e9))
def commit(path):
	return -lib.ckptfs_commit(path.encode())
def abandon(path):
	return -lib.ckptfs_abandon(path.encode())
def latest(path, verify=False, size=4096):
	buf = ctypes.create_string_buffer(size)
	err = -lib.ckptfs_latest(path.encode(), verify, buf, size)
	return err or buf.value.decode()
END
PYTHONPATH=$TEST_TMP:$PYTHONPATH program <<'END'
from follow import *

# What cannot be asked.
assert follow("/proc/version") == errno.ENOTTY and "no mount of ckptfs" in why(), why()
assert follow(mnt + "/.ckptfs/ctl") == errno.ENOTTY, why()
assert follow(mnt + "/x", 1) == follow(mnt + "/x", 5) == errno.EINVAL
assert follow("") == errno.ENOENT and follow(mnt + "/" + "n" * 256) == errno.ENAMETOOLONG
assert commit(mnt) == errno.ENOTTY and commit(mnt + "/step-1") == errno.ENOENT and "step-1" in why(), why()

# A directory that was removed has nothing any more, whatever the mount's top has of that name.
QUERY, COMMIT = 3 << 30 | 816 << 16 | ord("K") << 8 | 10, 3 << 30 | 776 << 16 | ord("K") << 8 | 11
os.mkdir(mnt + "/gone")
gone = os.open(mnt + "/gone", os.O_RDONLY)
with open(mnt + "/x", "wb"):
	pass
def asked(fd, request):
	"""The state, or the error."""
	try:
		return struct.unpack("=I", call(fd, request, b"x")[1][296 if request == QUERY else 260:][:4])[0]
	except OSError as e:
		return e.errno
assert asked(gone, QUERY) == 0 and asked(os.open(mnt, os.O_RDONLY), QUERY) == NEVER # an ordinary file
os.rmdir(mnt + "/gone")
assert asked(gone, QUERY) in (0, errno.ENOENT) and asked(gone, COMMIT) == errno.ENOENT
for request in QUERY, COMMIT:
	for name in b"", b".", b"a/b", b"n" * 256:
		fails(errno.EINVAL, call, os.open(mnt, os.O_RDONLY), request, name)
os.unlink(mnt + "/x")

# A path that is not there yet is waited for, with its directory, and by a name that is not one to print.
new = mnt + "/a\nb/c.pt"
assert follow(new) == errno.ETIMEDOUT and "does not exist yet" in why(), why()
pid = os.fork()
if not pid:
	os._exit(follow(new, COMMITTED, 60))
os.mkdir(mnt + "/a\nb")
with open(new, "wb") as f:
	f.write(data(1, MB))
assert os.waitpid(pid, 0)[1] == 0
assert read(back + "/a\nb/c.pt") == data(1, MB)

# Not captured before its tensors are.
s = Session(arena=2 * MB)
s.register({1: 2 * MB})
with open(mnt + "/t.pt", "wb", 0) as f:
	s.write(f, (1, 0, 0, 2 * MB, data(2, 2 * MB)))
	assert follow(mnt + "/t.pt", CAPTURED) == errno.ETIMEDOUT and "no end seen" in why(), why()
assert follow(mnt + "/t.pt", CAPTURED) == errno.ETIMEDOUT and "2.0 MiB" in why() and "still to be captured" in why(), why()
code, told = ckptfs("wait", "--state", "captured", "--timeout", "0", mnt + "/t.pt")
assert code == 1 and "still to be captured" in told, told
s.capture()
assert follow(mnt + "/t.pt", CAPTURED, 60) == 0 and follow(mnt + "/t.pt", COMMITTED, 60) == 0, why()
assert follow(mnt + "/t.pt", DURABLE) == 0 # that it is, too

# One that fails says why, with its error.
with open(mnt + "/u.pt", "wb", 0) as f:
	s.write(f, (1, 0, 0, 2 * MB, data(2, 2 * MB)))
pid = os.fork()
if not pid:
	os._exit(0 if follow(mnt + "/u.pt", COMMITTED, 60) == errno.ESTALE and "told you so" in why() else 1)
wait(lambda: open("/proc/%d/wchan" % pid).read() not in ("0", ""))
s.fail(2, errno.ESTALE, "told you so")
assert os.waitpid(pid, 0)[1] == 0

# A signal ends it.
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
assert follow(mnt + "/never.pt", COMMITTED, 60) == errno.EINTR, why()
signal.setitimer(signal.ITIMER_REAL, 0)

# A checkpoint that only its program knows the end of.
for name in "step-1", "step-2", "step-3":
	os.mkdir(mnt + "/run") if name == "step-1" else None
	os.makedirs(mnt + "/run/" + name)
	with open(mnt + "/run/" + name + "/__0_0.distcp", "wb") as f:
		f.write(name.encode())
	assert follow(mnt + "/run/" + name) == errno.ETIMEDOUT
	if name == "step-3":
		assert abandon(mnt + "/run/" + name) == 0, why()
		assert follow(mnt + "/run/" + name) == errno.ECANCELED and "step-3" in why(), why()
	else:
		assert commit(mnt + "/run/" + name + "/") == 0, why()
		assert follow(mnt + "/run/" + name, COMMITTED, 60) == 0, why()
assert commit(mnt + "/run/step-1") == errno.ENOENT, why()
os.mkdir(mnt + "/run/empty")
assert follow(mnt + "/run") == errno.EOPNOTSUPP and "directory" in why(), why()
if os.getuid() == 0:
	os.mkdir(mnt + "/run/step-4")
	with open(mnt + "/run/step-4/__0_0.distcp", "wb") as f:
		f.write(b"4")
	pid = os.fork()
	if not pid:
		os.setuid(12345)
		os._exit(0 if commit(mnt + "/run/step-4") == errno.EPERM and "step-4" in why() else 1)
	assert os.waitpid(pid, 0)[1] == 0
	assert abandon(mnt + "/run/step-4") == 0

assert latest(mnt + "/run") == mnt + "/run/step-2", why()
assert latest(mnt + "/run", True) == mnt + "/run/step-2", why()
assert latest(mnt + "/run", size=5) == errno.ERANGE
assert latest(mnt + "/nothing") == errno.ENOENT and "nothing" in why(), why()
os.mkdir(mnt + "/none")
assert latest(mnt + "/none") == errno.ENOENT and "none" in why(), why()

# What is told beside the path is no part of it, whichever standard streams the program has closed.
os.makedirs("foreign/step-1")
for name in "__0_0.distcp", ".metadata":
	with open("foreign/step-1/" + name, "wb") as f:
		f.write(b"x")
for closed in (), (1,), (0, 1), (0, 1, 2):
	pid = os.fork()
	if not pid:
		for fd in closed:
			os.close(fd)
		os._exit(0 if latest("foreign") == "foreign/step-1" and latest(mnt + "/none") == errno.ENOENT and "none" in why() and "without an answer" not in why() else 1)
	assert os.waitpid(pid, 0)[1] == 0, closed

damaged = back + "/run/step-2/__0_0.distcp"
with open(damaged, "r+b") as f:
	f.write(b"x")
assert latest(back + "/run", True) == back + "/run/step-1", why()
signal.signal(signal.SIGCHLD, signal.SIG_IGN) # as some launchers leave it
assert latest(mnt + "/run", True) == mnt + "/run/step-1", why()
os.environ["CKPTFS_COMMAND"] = "/nowhere/ckptfs"
assert latest(mnt + "/run") == errno.ENOPKG and "CKPTFS_COMMAND" in why(), why()
END
umount_ckptfs
