#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Captures that do not come: their trainer is killed, ends, closes its session, says that one failed, or never comes for its
# memory. Their file fails and says why, nothing else does; memory and names are free again.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
cat >"$TEST_TMP/trainer.py" <<'END'
# Writes a tensor to a file by handle, and does as it is told on standard input.
import sys
from capture import *
name, size = sys.argv[1], int(sys.argv[2])
s = Session(rank=int(sys.argv[3]), world=1, arena=2 * MB)
s.register({7: size}, prefix="\x1b[2J")
with open(mnt + "/" + name, "wb", 0) as f:
	s.write(f, (7, 0, 0, size, data(7, size)))
print("written", flush=True)
for line in sys.stdin:
	if line == "part\n":
		s.next(s.copy(s.next()))
	elif line == "bye\n":
		s.bye()
	elif line == "fail\n":
		s.fail(1, errno.ENODEV, "CUDA_ERROR_LAUNCH_FAILED (719)\x1b[2J")
	elif line == "exec\n":
		print("done", flush=True)
		os.execlp("cat", "cat")
	elif line == "rest\n":
		s.capture()
	elif line == "fork\n":
		if not os.fork():
			os.close(0)
			os.close(1)
			signal.pause()
	print("done", flush=True)
os._exit(0)
END
TRAINER=$TEST_TMP/trainer.py program <<'END'
from capture import *

class Trainer:
	def __init__(self, name, size=5 * MB, rank=3, other_job=True):
		self.process = subprocess.Popen([sys.executable, os.environ["TRAINER"], name, str(size), str(rank)],
			stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=other_job)
		assert self.process.stdout.readline() == "written\n"
	def __call__(self, line):
		self.process.stdin.write(line + "\n")
		self.process.stdin.flush()
		assert self.process.stdout.readline() == "done\n"
	def kill(self):
		self.process.kill()
		self.process.wait()
	def end(self):
		self.process.stdin.close()
		assert self.process.wait() == 0

def gone(name, *why):
	"""Failed, and said why."""
	wait(lambda: name not in pending())
	assert not os.path.exists(mnt + "/" + name) and not os.path.exists(back + "/" + name)
	said = [f["message"] for f in failures() if f["path"] == name]
	assert said and all(w in said[-1] for w in why), (name, said)

other = Trainer("other.pt")
assert [x["rank"] for x in status()["sessions"]] == [3], status()["sessions"]
killed = Trainer("killed.pt")
killed("part")
killed.kill()
gone("killed.pt", "'killed.pt' is not complete", "the tensor '?[2J7' was still to be captured when process", "(rank 3) ended")
ended = Trainer("ended.pt", rank=-1)
ended.end()
gone("ended.pt", "the tensor '?[2J7' was still to be captured when process %d ended" % ended.process.pid)
closed = Trainer("closed.pt")
closed("bye")
gone("closed.pt", "closed its session")
closed.end()
failed = Trainer("failed.pt")
failed("part")
failed("fail")
gone("failed.pt", "CUDA_ERROR_LAUNCH_FAILED (719)?[2J")
failed.end()
# It becomes another program, which knows of no session.
other_program = Trainer("exec.pt")
other_program("exec")
gone("exec.pt", "became another program")
other_program.end()
# Its children do not make it live on.
forked = Trainer("forked.pt")
forked("fork")
forked.kill()
gone("forked.pt", "ended")

# A file of a checkpoint: that fails, and the next one does not.
os.mkdir(mnt + "/step-2")
part = Trainer("step-2/__0_0.distcp", other_job=False)
f = open(mnt + "/step-2/__1_0.distcp", "wb", 0)
here = Session(rank=1, arena=2 * MB)
here.register({1: 5 * MB})
here.write(f, (1, 0, 0, 5 * MB, data(1, 5 * MB)))
done = here.copy(here.next())
part.kill()
wait(lambda: any(f["op"] == "checkpoint" and f["path"] == "step-2" for f in failures()))
assert not os.path.exists(mnt + "/step-2")
# The others are told; what was granted to them is theirs until they report it.
grants = []
while not grants or grants[-1][4]:
	grants = here.next(done[:1], 100)
	done = done[1:] + here.copy([g for g in grants if g[4]])
assert grants[-1][1] == 1, grants
assert here.next(done) == [] and here.stats()["pending"] == 0
wait(lambda: here.stats()["free"] == 2 * MB)
fails(errno.EIO, f.close)
here.bye()

# Who asks, but does not come, is no session after a while; nobody else can have what is lent to it, nor keep it from coming.
early = Session(come=False)
call(early.ctl, BYE, struct.pack("=Q", early.id))
absent, late = Session(come=False), Session(come=False)
directory = os.open(CONTROL, os.O_PATH)
assert os.path.exists(CONTROL + "/" + absent.socket) and absent.socket not in os.listdir(CONTROL)
fails(errno.EPERM, os.mknod, CONTROL + "/arena-0", 0o140600)
if os.getuid() == 0:
	stranger = os.fork()
	if not stranger:
		os.setuid(12345)
		with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
			try:
				sock.connect("/proc/self/fd/%d/%s" % (directory, late.socket))
				os._exit(0 if sock.recv(1) == b"" else 1)
			except OSError:
				os._exit(0)
	assert os.waitpid(stranger, 0)[1] == 0
late.come()
late.bye()
os.close(directory)
os.close(absent.ctl)

other("rest")
other.end()
published()
assert read(back + "/other.pt") == data(7, 5 * MB)
wait(lambda: status()["cache"]["lent"] == 0 and not status()["sessions"])
metrics = dict(line.rsplit(" ", 1) for line in read(CONTROL + "/metrics").decode().splitlines() if line[0] != "#")
for name, want in ("captures_total", 9), ("captures_failed_total", 8), ("sessions", 0), ("cache_lent_bytes", 0), ("capture_pending_bytes", 0):
	got = [value for key, value in metrics.items() if key.startswith("ckptfs_%s{" % name)]
	assert got == [str(want)], (name, got)
END
# The one that was forked.
pkill -f "$TEST_TMP/trainer.py"
none_left() {
	! pgrep -f "$TEST_TMP/trainer.py" >/dev/null
}
wait_until 10 none_left
umount_ckptfs
