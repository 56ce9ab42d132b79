#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Jobs and their checkpoints: one that lost a rank, between two files, fails, and each rank that is left is told once,
# before it begins another; a second live job is refused; what a job left that is gone is begun anew by the next.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
cat >"$TEST_TMP/rank.py" <<'END'
# Does what it is told, one Python expression a line, and answers with its value or the name of an error.
import errno, os, shutil, sys
def put(path, content=b"x" * 5000):
	with open(path, "wb") as file:
		file.write(content)
for line in sys.stdin:
	try:
		value = eval(line)
	except OSError as e:
		value = errno.errorcode[e.errno]
	print(value, flush=True)
END
RANK_PY=$TEST_TMP/rank.py program <<'END'
from checkpoints import *

class Rank:
	def __init__(self, job, rank=0, world=2, **more):
		env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(job), **more)
		self.process = subprocess.Popen([sys.executable, os.environ["RANK_PY"]], env=env, stdin=subprocess.PIPE,
			stdout=subprocess.PIPE, text=True, cwd=mnt)
	def __call__(self, line):
		self.process.stdin.write(line + "\n")
		self.process.stdin.flush()
		return self.process.stdout.readline().strip()
	def end(self, kill=False):
		self.process.kill() if kill else self.process.stdin.close()
		return self.process.wait()

a0, a1 = Rank(1000, 0), Rank(1000, 1)
assert a0("os.mkdir('step-1')") == "None"
assert a0("put('step-1/__0_0.distcp')") == a1("put('step-1/__1_0.distcp')") == "None"
b0 = Rank(2000)
assert b0("put('step-1/__0_0.distcp')") == "EBUSY"
assert any("another job" in f["message"] for f in failures())
a1.end(kill=True)
wait(lambda: any(f["op"] == "checkpoint" for f in failures()))
assert names() == [], names()

# The rank that is left is told, once, before it begins another with what it has.
assert a0("os.mkdir('step-2')") == "EIO"
told = [(f["op"], f["path"]) for f in failures() if f["errno"] == "EIO"]
assert ("save", "step-1") in told and "mkdir" not in dict(told), told # the backing has no part in it
assert "'step-1' of this job has failed (Input/output error)" in " ".join(f["message"] for f in failures()), failures()
assert a0("os.mkdir('step-2')") == "None"
assert a0("os.rmdir('step-2')") == "None"

# Neither another job nor its own next incarnation has anything to do with that.
c0, c1 = Rank(1000, 0), Rank(1000, 1)
assert c0("os.mkdir('step-1')") == "None"
for rank, c in enumerate((c0, c1)):
	assert c("put('step-1/__%d_0.distcp', b'new')" % rank) == "None"
assert c0("put('step-1/.metadata.tmp')") == c0("os.rename('step-1/.metadata.tmp', 'step-1/.metadata')") == "None"
wait_for(mnt + "/step-1")
assert sorted(set(os.listdir(back + "/step-1")) - {".ckptfs-index.json"}) == [".ckptfs-commit.json", ".metadata", "__0_0.distcp", "__1_0.distcp"]
assert read(back + "/step-1/__1_0.distcp") == b"new"
header = json.loads(read(back + "/step-1/.ckptfs-commit.json"))
assert header["world"]["ranks"] == 2 and header["done"] == "rename .metadata", header
assert [f["rank"] for f in header["files"]] == [0, 0, 1], header

# One that loses a rank while it changes a committed one: that stays as it is, and the other begins no change of it.
assert c1("open('step-1/__1_0.distcp', 'wb', 0).write(b'torn')") == "4"
c1("globals().update(held=open('step-1/late', 'wb'))")
c1.end(kill=True)
wait(lambda: read(mnt + "/step-1/__1_0.distcp") == b"new")
assert c0("put('step-1/late')") == "EIO"
wait(lambda: not pending())
verify(back + "/step-1")
c1 = Rank(1000, 1)
c0.end()
c0 = Rank(1000, 0)

# Who only makes the directory, before any file tells what it is, has no part in it.
class Launcher(Rank):
	def __init__(self):
		self.process = subprocess.Popen([sys.executable, os.environ["RANK_PY"]], stdin=subprocess.PIPE,
			stdout=subprocess.PIPE, text=True, cwd=mnt, start_new_session=True)
launcher = Launcher()
assert launcher("os.mkdir('step-2')") == "None"
for rank, c in enumerate((c0, c1)):
	assert c("put('step-2/__%d_0.distcp', b'new')" % rank) == "None"
assert launcher("put('step-2/__2_0.distcp')") == "EBUSY"
assert c0("put('step-2/.metadata.tmp')") == c0("os.rename('step-2/.metadata.tmp', 'step-2/.metadata')") == "None"
wait_for(mnt + "/step-2")
assert json.loads(read(back + "/step-2/.ckptfs-commit.json"))["job"] == header["job"]
assert launcher.end() == 0

# A job that has left one without its end, well, and the next.
assert c0("os.mkdir('step-3')") == "None"
assert c0("put('step-3/__0_0.distcp')") == "None"
assert c0.end() == c1.end() == 0
assert names() == ["step-1", "step-2", "step-3"], names()
assert b0("os.makedirs('step-3', exist_ok=True)") == "None"
assert b0("put('step-3/__1_0.distcp')") == "None"
assert b0("sorted(os.listdir('step-3'))") == "['__1_0.distcp']"
assert a0.end() == b0.end() == 0

# What was left, well, of a change to a committed one is no reason for an error either. What was added is whole by then,
# and is committed first.
added, again, last = Rank(3000, world=1), Rank(4000, world=1), Rank(5000, world=1)
assert added("put('step-2/added')") == "None"
assert added.end() == 0
assert not os.path.exists(back + "/step-2/added")
assert again("put('step-2/__0_0.distcp', b'newer')") == "None"
assert os.path.exists(back + "/step-2/added")
# A save anew is not, without its end.
assert again("os.unlink('step-2/.metadata')") == "None"
assert again.end() == 0
got = last("open('step-2/__1_0.distcp', 'r+b', 0).write(b'NEW')")
assert got == "3", (got, status(), failures())
assert last("open('step-2/__0_0.distcp', 'rb').read()") == "b'new'"
assert last.end() == 0
assert ckptfs("commit", mnt + "/step-2")[0] == 0
wait_for(mnt + "/step-2")
assert [read(back + "/step-2/__%d_0.distcp" % i) for i in (0, 1)] == [b"new", b"NEW"]
verify(back + "/step-2")

# One that it has removed, to begin it again, is not there for the next job either.
gone, last = Rank(6000, world=1), Rank(7000, world=1)
assert gone("put('step-2/__0_0.distcp')") == "None" # it saves here
assert gone("shutil.rmtree('step-2')") == gone("os.mkdir('step-2')") == gone("put('step-2/__0_0.distcp')") == "None"
assert gone.end() == 0
got = last("open('step-2/__0_0.distcp', 'wb', 0).write(b'NEW')")
assert got == "3", (got, status(), failures())
assert last("sorted(os.listdir('step-2'))") == "['__0_0.distcp']"
assert last("put('step-2/.metadata.tmp')") == last("os.rename('step-2/.metadata.tmp', 'step-2/.metadata')") == "None"
wait_for(mnt + "/step-2")
assert sorted(set(os.listdir(back + "/step-2")) - {".ckptfs-index.json"}) == [".ckptfs-commit.json", ".metadata", "__0_0.distcp"]
verify(back + "/step-2")
assert last.end() == 0

# What is left of a former start of a job changes nothing that the next has saved. The same run, begun anew later, may.
def start(nr):
	return Rank(8000, world=1, SLURM_JOB_ID="8000", SLURM_RESTART_COUNT=str(nr))
former = start(0)
assert former("1") == "1" # it runs
later = start(1)
assert later("os.mkdir('step-4')") == later("put('step-4/__0_0.distcp')") == "None"
assert later("put('step-4/.metadata.tmp')") == later("os.rename('step-4/.metadata.tmp', 'step-4/.metadata')") == "None"
wait_for(mnt + "/step-4")
assert former("put('step-4/__0_0.distcp', b'old')") == "EBUSY"
assert any("a later start of this job" in f["message"] for f in failures()), failures()
verify(back + "/step-4")
anew = start(0)
assert anew("put('step-4/added')") == "None"
assert former.end() == later.end() == anew.end() == 0
assert ckptfs("commit", mnt + "/step-4")[0] == 0
wait_for(mnt + "/step-4")
assert os.path.exists(back + "/step-4/added")
left = status()["pending"]
assert [p["path"] for p in left] == ["step-3"], (left, failures())
END
expect_fail "$CKPTFS" umount "$MNT"
assert_contains "$OUT" "the checkpoint 'step-3' was not committed, because its end had not been seen when"
