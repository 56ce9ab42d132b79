#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# wait, latest, commit and abandon from Python: what comes is waited for, what fails or is late is told in words, and
# signals reach the program.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
mount_ckptfs -o "capture_bw=4M,flush_bw=4M,host_cache_size=64M"
program <<'END'
import errno, logging, os, signal, threading
import ckptfs
from ckptfs import CheckpointError
mnt, back = os.environ["MNT"], os.environ["BACK"]

said = []
logging.getLogger("ckptfs").addFilter(lambda record: said.append(record.getMessage()))

def fails(error, call, *args, **kwargs):
	try:
		call(*args, **kwargs)
	except CheckpointError as e:
		assert e.errno == error, (e.errno, str(e))
		return str(e)
	raise AssertionError("nothing was raised")

run = mnt + "/run"
os.mkdir(run)
assert ckptfs.latest(run) is None
told = fails(errno.ENOENT, ckptfs.latest, mnt + "/none")
assert told.startswith(mnt + "/none: there is no such directory"), told
told = fails(errno.ENOTTY, ckptfs.wait, os.environ["TEST_TMP"])
assert "lies in no mount of ckptfs: it is an ordinary directory on " in told, told
try:
	ckptfs.wait(run, "done")
except ValueError as error:
	assert "captured, durable, committed" in str(error)
else:
	raise AssertionError

session = ckptfs.Session(mnt)
def save(name):
	with open(run + "/" + name, "wb", 0) as file:
		session.write(file, {"w": bytearray(4 << 20)})

save("step-1.pt")
told = fails(errno.ETIMEDOUT, ckptfs.wait, run + "/step-1.pt", timeout=0)
assert "step-1.pt" in told, told
# A signal's handler runs while it waits, and may end that.
def handler(*_):
	raise InterruptedError("enough")
signal.signal(signal.SIGUSR1, handler)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
try:
	ckptfs.wait(mnt + "/run/never.pt")
except InterruptedError as error:
	assert str(error) == "enough"
	assert len(said) == 1 and "never.pt does not exist yet: ckptfs.wait waits for it without end" in said[0], said
else:
	raise AssertionError
for state in "captured", "durable", "committed":
	ckptfs.wait(run + "/step-1.pt", state)
assert os.path.getsize(back + "/run/step-1.pt") == 4 << 20
assert ckptfs.latest(run) == run + "/step-1.pt", ckptfs.latest(run)
save("step-2.pt")
ckptfs.wait(run + "/step-2.pt")
assert ckptfs.latest(run, verify=False) == run + "/step-2.pt"
with open(back + "/run/step-2.pt", "r+b") as file:
	file.seek(12345)
	file.write(b"damage")
for how in True, "full":
	assert ckptfs.latest(back + "/run", verify=how) == back + "/run/step-1.pt", how

# A directory that no evidence comes for.
os.mkdir(mnt + "/step-3")
with open(mnt + "/step-3/__0_0.distcp", "wb", 0) as file:
	session.write(file, {"w": bytearray(1 << 20)})
session.barrier(landed=True)
ckptfs.commit(mnt + "/step-3")
ckptfs.wait(mnt + "/step-3")
assert os.path.exists(back + "/step-3/__0_0.distcp")
fails(errno.ENOENT, ckptfs.commit, mnt + "/step-99")
os.mkdir(mnt + "/step-4")
with open(mnt + "/step-4/__0_0.distcp", "wb", 0) as file:
	file.write(b"x")
ckptfs.abandon(mnt + "/step-4")
assert not os.path.exists(mnt + "/step-4")
END
umount_ckptfs
