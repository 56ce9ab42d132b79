#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Two sessions of one rank, of one process and of two, write one file and files of their own: each has its own numbers and
# tensors, and the end of one is none of the other's. Forked data loaders, which have all descriptors and live longer than
# their trainer, keep neither its session nor its file.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
cat >"$TEST_TMP/trainer.py" <<'END'
# A trainer with data loaders: they are forked once its session is there, and outlive it.
import sys
from capture import *
s = Session(rank=0, world=1, arena=2 * MB)
s.register({1: 3 * MB})
for i in range(2):
	if not os.fork():
		os.close(1)
		signal.pause()
with open(mnt + "/loaders.pt", "wb", 0) as f:
	s.write(f, (1, 0, 0, 3 * MB, data(1, 3 * MB)))
	if sys.argv[1] == "all":
		s.capture()
print("saved", flush=True)
os._exit(0)
END
TRAINER=$TEST_TMP/trainer.py program <<'END'
from capture import *

a, b = Session(rank=0, world=1, arena=2 * MB), Session(rank=0, world=1, arena=2 * MB)
assert a.id != b.id and [x["rank"] for x in status()["sessions"]] == [0, 0]
one, two = data(1, 3 * MB), data(2, 3 * MB)
a.register({1: 3 * MB})
b.register({1: 3 * MB}) # another of the same number
with open(mnt + "/both.pt", "wb", 0) as f:
	a.write(f, (1, 0, 0, 3 * MB, one))
	b.write(f, (1, 3 * MB, 0, 3 * MB, two))
	a.write(f, (1, 6 * MB, 0, 3 * MB, one))
	b.capture()
	assert a.stats()["pending"] == 2 and b.stats()["pending"] == 0
	a.capture()
wait(lambda: os.path.exists(back + "/both.pt"))
assert read(back + "/both.pt") == one + two + one

# The same rank again, in another process.
for how in "all", "some":
	trainer = subprocess.run([sys.executable, os.environ["TRAINER"], how], stdout=subprocess.PIPE, text=True, start_new_session=True,
		check=True)
	assert trainer.stdout == "saved\n"
	wait(lambda: status()["cache"]["lent"] == 4 * MB and len(status()["sessions"]) == 2)
	wait(lambda: "loaders.pt" not in pending())
	assert read(back + "/loaders.pt") == data(1, 3 * MB) # the second failed, and the first has its name
assert [f["path"] for f in failures()].count("loaders.pt") == 1, failures()

# One leaves with something left, the other goes on with its own.
f, g = open(mnt + "/left.pt", "wb", 0), open(mnt + "/goes-on.pt", "wb", 0)
a.write(f, (1, 0, 0, 3 * MB, one))
b.write(g, (1, 0, 0, 3 * MB, two))
a.bye()
b.capture()
fails(errno.EIO, f.close)
g.close()
wait(lambda: os.path.exists(back + "/goes-on.pt"))
assert read(back + "/goes-on.pt") == two
wait(lambda: any(f["path"] == "left.pt" for f in failures()))
b.bye()
assert sorted(f["path"] for f in failures()) == ["left.pt", "loaders.pt"], failures()
wait(lambda: status()["cache"]["lent"] == 0 and not status()["sessions"])

END
pkill -f "$TEST_TMP/trainer.py"
none_left() {
	! pgrep -f "$TEST_TMP/trainer.py" >/dev/null
}
wait_until 10 none_left
umount_ckptfs
