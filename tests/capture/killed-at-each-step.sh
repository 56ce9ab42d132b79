#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 180
# A trainer that is killed after each step of a save by handle: what is not whole fails, what is whole is published, its
# memory comes back; a second rank, which goes on beside it, notices nothing.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
cat >"$TEST_TMP/trainer.py" <<'END'
# Saves a file by handle, up to the step that it is told, says so, and waits to be killed.
import sys
from capture import *
name, last = sys.argv[1], sys.argv[2]

def step(this):
	if this == last:
		print("there", flush=True)
		signal.pause()

s = Session(rank=0, world=2, arena=2 * MB, come=False)
step("hello")
s.come()
step("lent")
s.register({1: 3 * MB})
step("registered")
f = open(mnt + "/" + name, "wb", 0)
step("opened")
s.write(f, (1, 0, 0, 3 * MB, data(1, 3 * MB)))
step("written")
grants = s.next()
step("granted")
done = s.copy(grants)
step("copied")
done = done[1:] + s.copy(s.next(done[:1]))
step("reported in part")
s.capture(done)
step("captured")
f.close()
step("closed")
END
TRAINER=$TEST_TMP/trainer.py program <<'END'
from capture import *

other = Session(rank=1, world=2, arena=2 * MB)
tensor = data(2, 3 * MB)
other.register({1: 3 * MB})
for nr, step in enumerate(("hello", "lent", "registered", "opened", "written", "granted", "copied", "reported in part", "captured", "closed")):
	mine, its = "other-%d.pt" % nr, "killed-%d.pt" % nr
	with open(mnt + "/" + mine, "wb", 0) as f:
		other.write(f, (1, 0, 0, 3 * MB, tensor))
		done = other.copy(other.next())
		killed = subprocess.Popen([sys.executable, os.environ["TRAINER"], its, step], stdout=subprocess.PIPE, text=True,
			start_new_session=True)
		assert killed.stdout.readline() == "there\n", step
		killed.kill()
		killed.wait()
		other.capture(done)
	wait(lambda: len(status()["sessions"]) == 1 and status()["cache"]["lent"] == other.stats()["arena"])
	wait(lambda: os.path.exists(back + "/" + mine))
	assert read(back + "/" + mine) == tensor, step
	wait(lambda: its not in pending())
	said = [f["message"] for f in failures() if f["path"] == its]
	if step == "closed":
		wait(lambda: os.path.exists(back + "/" + its))
		assert read(back + "/" + its) == data(1, 3 * MB) and not said, said
	else:
		assert not os.path.exists(back + "/" + its) and not os.path.exists(mnt + "/" + its), step
		assert bool(said) == (nr >= 3), (step, said)
other.bye()
wait(lambda: status()["cache"]["lent"] == 0 and not status()["sessions"])
assert not any(f["path"].startswith("other") for f in failures()), failures()
END
umount_ckptfs
