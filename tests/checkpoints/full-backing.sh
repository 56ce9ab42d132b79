#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A backing without room for a checkpoint: what is not wanted any more goes first, in its order; then the checkpoint
# fails with the cause, its room is freed, the job is told, and what was committed stays. With on_full=delete_last a
# disk that fits one and a half goes on; with on_full=wait it waits for others.
#
# needs: root
# timeout: 240
# cpu: 15

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse

# full SIZE_MB OPTIONS KIND: the program that follows is run with a backing of that size.
full() {
	loop_fs ext4 "$1" "$TEST_TMP/disk.$3"
	mount_ckptfs -o "$2,quiet_s=3600,pin_host_cache=false" "$TEST_TMP/disk.$3" "$TEST_TMP/mnt.$3"
	program < <(cat "$TEST_TMP/full.py" -)
	run "$CKPTFS" umount "$MNT"
}

cat >"$TEST_TMP/full.py" <<'END'
from checkpoints import *
import checkpoints, shutil

filler = back + "/filler"

def save(path, content):
	"""As programs write that take a short write for what it is."""
	with open(path, "wb", buffering=0) as file:
		while content:
			content = content[file.write(content[:MB]):]

checkpoints.save = save

def unit(number):
	return mnt + "/step-%d" % number

def on_backing():
	return sorted(n for n in os.listdir(back) if n.startswith("step-"))

def spoiled(path):
	"""Fails as if a rank was killed."""
	def killed():
		begin(path, 2, 7 * MB)
		os.kill(os.getpid(), signal.SIGKILL)
	assert reap(child(killed)) == -signal.SIGKILL
	wait(lambda: os.path.basename(path) not in pending())

def has_failed(name, why="No space left"):
	wait(lambda: any(f["path"] == name and why in f["message"] for f in failures()))
	assert name not in on_backing() and name not in names()
	wait(lambda: not staging())
END

# One and a half, and the job deletes first.
full 32 on_full=delete_last last <<'END'
content = make(unit(1), 2, 8 * MB, 1)
for number in 2, 3, 4:
	shutil.rmtree(unit(number - 1))
	assert on_backing() == ["step-%d" % (number - 1)]
	content = make(unit(number), 2, 8 * MB, number)
	is_whole("step-%d" % number, content)
	assert on_backing() == ["step-%d" % number] and not failures(), failures()
# Onto the same name.
shutil.rmtree(unit(4))
content = make(unit(4), 2, 8 * MB, 5)
is_whole("step-4", content)
assert not staging()
END

# The last one stays otherwise, and is there again.
full 32 on_full=fail,order_timeout_s=1 fails <<'END'
first = make(unit(1), 2, 8 * MB, 1)
shutil.rmtree(unit(1))
fails(errno.ENOSPC, begin, unit(2), 2, 8 * MB)
has_failed("step-2")
assert on_backing() == ["step-1"]
wait(lambda: names() == ["step-1"])
is_whole("step-1", first)
# Who was told by his call can go on.
second = make(unit(3), 1, 2 * MB)
is_whole("step-3", second)
END

# What a newer one outlives: a removal that waits, and the remains of one that failed.
full 50 on_full=fail newer <<'END'
first, second = make(unit(1), 2, 8 * MB, 1), make(unit(2), 2, 8 * MB, 2)
shutil.rmtree(unit(1))
assert on_backing() == ["step-1", "step-2"]
third = make(unit(3), 2, 8 * MB, 3)
assert on_backing() == ["step-2", "step-3"]
is_whole("step-2", second)
is_whole("step-3", third)
assert not failures(), failures()
END
full 50 on_full=fail wreck <<'END'
first = make(unit(1), 1, MB)
spoiled(unit(2))
assert len(staging()) == 1
third = make(unit(3), 1, MB, 3)
assert len(staging()) == 1, "gone without need"
fourth = make(unit(4), 2, 16 * MB, 4)
is_whole("step-4", fourth)
is_whole("step-3", third)
is_whole("step-1", first)
assert not staging()
END

# Found out by the flush only, when the program has closed it. It is told at its next call, and once.
full 160 on_full=fail,flush_bw=5M flushed <<'END'
first = make(unit(1))
content = begin(unit(2), 1, 12 * MB)
fill_up(filler)
has_failed("step-2")
fails(errno.ENOSPC, os.mkdir, unit(3))
os.unlink(filler)
second = make(unit(3), 1, 6 * MB)
is_whole("step-3", second)
is_whole("step-1", first)
code, said = ckptfs("why", unit(2))
assert "No space left" in said, said
END

# What failed, or was removed, takes no room any more: neither is it kept open for what is cached of it.
full 200 on_full=fail cached <<'END'
def room():
	stat = os.statvfs(back)
	return stat.f_bavail * stat.f_frsize

before = room()
begin(unit(1), 1, 20 * MB)
wait(lambda: list(pending()) == ["step-1"])
assert status()["cache"]["clean"] and room() < before - 19 * MB
fill_up(filler)
with contextlib.suppress(OSError):
	save(unit(1) + "/__1_0.distcp", data(2, 10 * MB))
has_failed("step-1")
os.unlink(filler)
wait(lambda: room() > before - MB)
with contextlib.suppress(OSError): # if he was not told by the write
	os.mkdir(unit(2))
make(unit(3), 1, 20 * MB)
shutil.rmtree(unit(3))
make(unit(4), 1, 1000)
wait(lambda: room() > before - MB)
END

# Others make room, or not in time.
full 32 on_full=wait:30 wait <<'END'
os.mkdir(unit(2))
fill_up(filler)
def saver():
	save(unit(2) + "/__0_0.distcp", data(2, 5 * MB))
	end(unit(2))
	wait_for(unit(2))
pid = child(saver)
wait(lambda: any("no room" in g.get("note", "") for g in status()["pending"]))
assert "no room" in ckptfs("status", mnt)[1]
os.unlink(filler)
assert reap(pid) == 0
verify(back + "/step-2")
END
full 32 on_full=wait:1 in-vain <<'END'
first = make(unit(1), 1, 5 * MB)
os.mkdir(unit(2))
fill_up(filler)
fails(errno.ENOSPC, save, unit(2) + "/__0_0.distcp", data(2, 5 * MB))
has_failed("step-2")
os.unlink(filler)
is_whole("step-1", first)
make(unit(3))
END
