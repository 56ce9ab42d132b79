#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# timeout: 120
# A daemon that is killed while it commits the checkpoint of a job which points to it and removes the one before: on the
# backing the pointer names a whole one at any time, and after the next mount, or fsck, all of what was decided is done:
# the pointer names the newest, and what was removed is gone if and only if that is there.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse

# save STEP POINT HOW WHEN: a job saves step-STEP and points to it, and the daemon is killed at that point.
save() {
	program "$@" <<'END'
from checkpoints import *
import shutil

step, point, how, when = sys.argv[1:]
unit, pointer = "step-" + step, "last" if how == "link" else "latest"
before = sorted(n for n in names() if n.startswith("step-"))
records = back + "/.ckptfs/txn/%d" % os.getuid()

def has_come():
	if point == "record":
		return any(n.endswith(".decision") for n in os.listdir(records)) if os.path.isdir(records) else False
	if point == "unit":
		return os.path.exists(back + "/" + unit)
	if point == "pointer":
		path = back + "/" + pointer
		if how == "link":
			return os.path.lexists(path) and os.readlink(path) == unit
		return os.path.exists(path) and read(path).decode() == unit
	return before and not os.path.exists(back + "/" + before[0])

def kill_then(daemon, ready):
	os.write(ready, b".")
	while not has_come():
		pass
	os.kill(daemon, signal.SIGKILL)
	os._exit(0)

def save_it():
	content = begin(mnt + "/" + unit)
	if how == "link":
		os.symlink(unit, mnt + "/new")
		os.rename(mnt + "/new", mnt + "/" + pointer)
	elif how == "written":
		save(mnt + "/" + pointer, unit.encode())
	else:
		save(mnt + "/new", unit.encode())
		os.rename(mnt + "/new", mnt + "/" + pointer)
	if when == "before":
		for name in before:
			shutil.rmtree(mnt + "/" + name)
	end(mnt + "/" + unit, content)
	if when == "after":
		for name in before:
			shutil.rmtree(mnt + "/" + name)
	ckptfs("wait", "--timeout", "30", mnt + "/" + unit)

daemon = status()["pid"]
ready, ready_in = os.pipe()
watcher = os.fork()
if not watcher:
	kill_then(daemon, ready_in)
os.read(ready, 1)
with contextlib.suppress(OSError):
	save_it()
with contextlib.suppress(ProcessLookupError):
	os.kill(daemon, signal.SIGKILL) # that point was passed unseen
os.kill(watcher, signal.SIGKILL)
os.waitpid(watcher, 0)

def has_ended():
	try:
		return b"\nState:\tZ" in read("/proc/%d/status" % daemon)
	except OSError:
		return True

wait(has_ended)
END
}

# check STEP HOW WHEN RECOVERED: what is on the backing. Prints what the pointer names.
check() {
	MNT=$BACK program "$@" <<'END'
from checkpoints import *

step, how, when, recovered = sys.argv[1:]
pointer = back + "/" + ("last" if how == "link" else "latest")
there = sorted(n for n in os.listdir(back) if n.startswith("step-"))
named = None
if os.path.lexists(pointer):
	named = os.readlink(pointer) if how == "link" else read(pointer).decode()
for name in there:
	verify(back + "/" + name)
assert named in there if named else not there or not recovered, (named, there)
assert there or step == "1", "none is left"
if recovered and there:
	newest = "step-" + step if "step-" + step in there else there[-1]
	assert named == newest, (named, there)
	assert when == "after" or there == [newest], there
	assert not os.listdir(back + "/.ckptfs/txn/%d" % os.getuid())
print("step %s: %s of %s" % (step, named, there))
END
}

for how in written renamed link; do
	BACK=$TEST_TMP/$how
	mkdir "$BACK"
	step=0
	for round in "record before" "unit before" "pointer after" "removal before"; do
		read -r point when <<<"$round"
		step=$((step + 1))
		mount_ckptfs -o quiet_s=3600 "$BACK"
		save "$step" "$point" "$how" "$when"
		check "$step" "$how" "$when" ''
		if [ "$point" = unit ]; then
			umount -l "$MNT"
			run "$CKPTFS" fsck "$BACK"
			echo "$OUT"
		else
			mount_ckptfs -o quiet_s=3600 "$BACK"
			umount_ckptfs
		fi
		check "$step" "$how" "$when" recovered
	done
	expect_ok "$CKPTFS" fsck --discard "$BACK"
	assert_eq "$(find "$BACK" -name '.ckptfs-*' ! -name .ckptfs-commit.json ! -name .ckptfs-index.json)" "" "what is left"
done
