#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ckptfs.latest as each rank of a job calls it: it reads no content unless it is asked to, all ranks get the answer of one,
# what is skipped or not ckptfs's own is told, and what cannot be looked at is never "there is none".

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
export PYTHONPATH=$PYTHONPATH:$SRC/tests/newcomer
mount_ckptfs -o host_cache_size=128M
program <<'END'
from told import *
import shutil, subprocess, types
mnt, back, tmp = os.environ["MNT"], os.environ["BACK"], os.environ["TEST_TMP"]

# A single file and a directory, of 60 MB each.
SIZE = 60 << 20
session = ckptfs.Session(mnt)
os.makedirs(mnt + "/files")
with open(mnt + "/files/step-1.pt", "wb", 0) as file:
	session.write(file, {"w": bytearray(SIZE)})
session.barrier()
ckptfs.wait(mnt + "/files/step-1.pt")
os.makedirs(mnt + "/run/step-1")
with open(mnt + "/run/step-1/__0_0.distcp", "wb", 0) as file:
	session.write(file, {"w": bytearray(SIZE)})
session.barrier()
ckptfs.commit(mnt + "/run/step-1")
ckptfs.wait(mnt + "/run/step-1")
session.close()

def bytes_read():
	"""By this process, and by those that it has waited for."""
	with open("/proc/self/io") as file:
		return int(file.readline().split()[1])

for top in mnt, back:
	for directory, name in ("/files", "/step-1.pt"), ("/run", "/step-1"):
		for arguments in {}, {"verify": "structure"}, {"verify": False}, {"verify": "none"}, {"verify": True}, {"verify": "full"}:
			before = bytes_read()
			assert ckptfs.latest(top + directory, **arguments) == top + directory + name
			read = bytes_read() - before
			assert read >= SIZE if arguments.get("verify") in (True, "full") else read < 1 << 20, (top, directory, arguments, read)
assert not said, said
try:
	ckptfs.latest(back, verify="fully")
except ValueError as error:
	assert '"structure", "full" (True) or "none" (False)' in str(error)
else:
	raise AssertionError

# A file of it is cut, or gone: the one before it is named, and it is said why.
shutil.copytree(back + "/run", tmp + "/copy")
newer = tmp + "/copy/step-2"
os.makedirs(newer)
with open(newer + "/model.pt", "wb") as file:
	file.write(b"model")
subprocess.run([sys.executable, os.environ["SRC"] + "/tests/cli/commit.py", newer, "sequence=9"], check=True)
assert ckptfs.latest(tmp + "/copy") == newer and not said, said
os.truncate(newer + "/model.pt", 3)
assert ckptfs.latest(tmp + "/copy") == tmp + "/copy/step-1"
assert len(said) == 1 and newer + " is newer, but does not verify" in said[0], said
os.unlink(newer + "/model.pt")
assert ckptfs.latest(tmp + "/copy") == tmp + "/copy/step-1" and len(said) == 2
assert ckptfs.latest(tmp + "/copy", verify=False) == newer
said.clear()

# For what goes by names below: a file whose name a rule of Hugging Face claims, another that no rule does, and a part of a checkpoint that nobody commits.
os.makedirs(mnt + "/hf")
for name in "pytorch_model.bin", "weights.dat":
	with ckptfs.open(mnt + "/hf/" + name) as file:
		file.write(b"model")
	ckptfs.wait(mnt + "/hf/" + name)
os.makedirs(mnt + "/r2/checkpoint-30")
with open(mnt + "/r2/checkpoint-30/optimizer.pt", "wb") as file:
	file.write(b"part")
while os.getxattr(mnt + "/r2/checkpoint-30/optimizer.pt", "user.ckptfs.state") in (b"open", b"sealed"):
	time.sleep(0.01)
assert os.getxattr(mnt + "/r2/checkpoint-30/optimizer.pt", "user.ckptfs.state") == b"durable"
assert ckptfs.latest(mnt + "/r2") is None

# What ckptfs did not write is named for want of others, and told.
os.makedirs(tmp + "/old")
with open(tmp + "/old/a.pt", "wb") as file:
	file.write(b"x")
assert ckptfs.latest(tmp + "/old") == tmp + "/old/a.pt"
assert len(said) == 1 and tmp + "/old/a.pt was not written by ckptfs" in said[0], said

# Never "there is none" of what was not looked at.
text = told(errno.ENOENT, ckptfs.latest, tmp + "/missing")
assert text.startswith(tmp + "/missing: there is no such directory"), text
text = told(errno.ENOTDIR, ckptfs.latest, tmp + "/old/a.pt")
assert "latest wants the directory" in text, text
os.environ["CKPTFS_COMMAND"] = "/nowhere/ckptfs"
text = told(errno.ENOPKG, ckptfs.latest, mnt + "/run")
assert "cannot run the command ckptfs (/nowhere/ckptfs)" in text and "CKPTFS_COMMAND" in text, text
del os.environ["CKPTFS_COMMAND"]
if os.getuid() == 0:
	os.makedirs(tmp + "/closed", 0o700)
	if not os.fork():
		os.setuid(12345)
		try:
			assert "cannot be looked at: Permission denied" in told(errno.EACCES, ckptfs.latest, tmp + "/closed")
			os._exit(0)
		finally:
			os._exit(1)
	assert os.wait()[1] == 0

# All ranks have the answer of the first, errors too. (In place of torch.distributed: what it would pass on.)
class Group:
	"""The ranks of one, played one after the other."""
	def __init__(self, first=0):
		self.first, self.rank, self.passed = first, first, None

	def get_global_rank(self, group, rank):
		assert group is self and rank == 0
		return self.first

	def get_rank(self):
		return self.rank

	def is_initialized(self):
		return self.passed != "not"

	def broadcast_object_list(self, objects, src, group):
		assert src == self.first and group in (None, self)
		if self.rank == src:
			self.passed = list(objects)
		else:
			objects[:] = self.passed

torch = types.ModuleType("torch")
sys.modules["torch"] = torch
for first, chosen in (0, True), (3, None):
	torch.distributed = group = Group(first)
	sys.modules["torch.distributed"] = group
	for rank, directory in (first, mnt + "/run"), (first + 1, tmp + "/missing"):
		group.rank = rank
		assert ckptfs.latest(directory, group=chosen or group) == mnt + "/run/step-1"
	for rank, directory in (first, tmp + "/missing"), (first + 1, mnt + "/run"):
		group.rank = rank
		assert tmp + "/missing: there is no such directory" in told(errno.ENOENT, ckptfs.latest, directory, group=chosen or group)
group.passed = "not"
try:
	ckptfs.latest(mnt, group=True)
except ValueError as error:
	assert "init_process_group" in str(error)
else:
	raise AssertionError
# Only the command's own no says that there is none: a command that does not run, is another's, or is killed, says nothing.
command = os.environ.get("CKPTFS_COMMAND")
for other in "/bin/false", "/bin/true", "/bin/cat":
	os.environ["CKPTFS_COMMAND"] = other
	text = told(errno.EIO, ckptfs.latest, os.environ["MNT"])
	assert "ended without an answer" in text and other in text, text
# A pointer is newer than what it names, and has a digest, too.
with open(mnt + "/run/latest", "w", encoding="utf-8") as file:
	file.write("step-1")
END

# Without the library it goes by names, sizes and times, and says so once; wait tells that there is none.
CKPTFS_LIB=/nowhere program <<'END'
from told import *
mnt, back, tmp = os.environ["MNT"], os.environ["BACK"], os.environ["TEST_TMP"]
for top in mnt, back:
	assert ckptfs.latest(top + "/run") == top + "/run/step-1", top
	assert ckptfs.latest(top + "/files") == top + "/files/step-1.pt", top
	assert ckptfs.latest(top + "/hf") == top + "/hf/weights.dat", top
	was = os.stat(back + "/hf/weights.dat")
	os.truncate(back + "/hf/weights.dat", 3)
	assert ckptfs.latest(top + "/hf") == top + "/hf/pytorch_model.bin", top
	os.truncate(back + "/hf/weights.dat", 5)
	os.utime(back + "/hf/weights.dat", ns=(was.st_atime_ns, was.st_mtime_ns))
	assert ckptfs.latest(top + "/r2") is None, top
assert ckptfs.latest(tmp + "/copy") == tmp + "/copy/step-1"
assert ckptfs.latest(tmp + "/copy", verify=False) == tmp + "/copy/step-2"
assert [line for line in said if "no libckptfs" in line] == [said[0]] and "names, sizes and times only: no libckptfs: /nowhere" in said[0], said
assert len(said) == 2 and "step-2 is skipped: " in said[1], said
assert ckptfs.latest(tmp + "/old") == tmp + "/old/a.pt" and "was not written by ckptfs" in said[2], said
os.makedirs(tmp + "/empty")
assert ckptfs.latest(tmp + "/empty") is None
for call in lambda: ckptfs.latest(mnt, verify="full"), lambda: ckptfs.wait(mnt + "/files/step-1.pt"), lambda: ckptfs.Session(mnt):
	assert "no libckptfs: /nowhere" in told(errno.ENOENT, call)
# Of what lies in no mount the answer is the same with a library and without.
assert "lies in no mount of ckptfs" in told(errno.ENOTTY, ckptfs.wait, tmp + "/old/a.pt")
END
umount_ckptfs
