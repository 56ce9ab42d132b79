#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The backing is frozen in the middle of saves: who waits for it can be killed, what is in the cache is read as ever,
# and after the thaw what was closed is published, whole, and what was not is as it was before.
#
# timeout: 90
# cpu: 15
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse

# freezing KIND
freezing() {
	loop_fs "$1" 400 "$TEST_TMP/disk.$1"
	mount_ckptfs -o flush_bw=12M "$TEST_TMP/disk.$1" "$TEST_TMP/mnt.$1"
	daemon=$(daemon_pid)
	program <"$TEST_TMP/freezing.py"
	assert_eq "$(daemon_pid)" "$daemon" "pid of the daemon"
	expect_ok timeout 30 "$CKPTFS" umount "$MNT"
	assert_eq "$(find "$BACK" -name '.ckptfs-*')" "" "left on the backing"
}

cat >"$TEST_TMP/freezing.py" <<'END'
from units import *

old, new, large = data(1, MB + 77), data(2, 6 * MB + 3), data(3, 100 * MB)
# Who makes or removes a name has its directory locked, in the kernel: each has one of its own.
for name in "abcd":
	os.mkdir(mnt + "/" + name)
kept = ["kept%d.pt" % nr for nr in range(6)] + ["c/kept.pt"]
for name in kept:
	save(mnt + "/" + name, old)
	wait_for(mnt + "/" + name)

def in_flight(op):
	"""Do requests of that name wait for the backing, for a second by now?"""
	return any(w["op"].startswith(op) for w in status()["requests"]["waiting"])

def begin(name, flags=os.O_TRUNC):
	fd = os.open(mnt + "/" + name, os.O_CREAT | os.O_WRONLY | flags)
	os.write(fd, new[:MB])
	return fd

told = os.pipe()
def writes_then(name, more):
	"""A process that has begun a save before the freeze, and goes on after it."""
	go = os.pipe()
	def main():
		fd = begin(name)
		os.write(told[1], b"x")
		os.read(go[0], 1)
		more(fd)
		os.write(told[1], b"y")
		signal.pause()
	pid = child(main)
	assert os.read(told[0], 1) == b"x"
	return pid, lambda: os.write(go[1], b"x")

def fill(fd):
	for at in range(0, len(large), MB):
		os.write(fd, large[at:at + MB])

goes_on = writes_then(kept[0], lambda fd: os.write(fd, new[MB:]) and os.close(fd))
holds = writes_then(kept[1], lambda fd: None)
syncs = writes_then(kept[2], lambda fd: os.write(fd, new[MB:]) and os.fsync(fd))
renames = writes_then("new.pt.tmp", lambda fd: os.rename(mnt + "/new.pt.tmp", mnt + "/" + kept[3]))
save(mnt + "/closed.pt", new)
save(mnt + "/closed2.pt.tmp", new[::-1])
os.rename(mnt + "/closed2.pt.tmp", mnt + "/closed2.pt")
subprocess.run(["fsfreeze", "-f", back], check=True)
try:
	# What only needs the cache goes on: writes, closes, and reads.
	goes_on[1]()
	assert os.read(told[0], 1) == b"y"
	holds[1]()
	assert os.read(told[0], 1) == b"y"
	assert read(mnt + "/" + kept[0]) == new and read(mnt + "/closed.pt") == new
	assert read(mnt + "/closed2.pt") == new[::-1] and read(mnt + "/" + kept[5]) == old
	assert "closed2.pt" in names()

	# The rest waits, and can be killed.
	creates = child(lambda: begin("a/created.pt"))
	creates_temp = child(lambda: begin("b/.tmpAbC123"))
	cuts = child(lambda: begin(kept[4]))
	removes = child(lambda: os.unlink(mnt + "/" + kept[6]))
	syncs[1]()
	for op in "CREATE", "OPEN", "UNLINK", "FSYNC":
		wait(lambda: in_flight(op))
	fills = child(lambda: fill(begin("d/huge.pt", os.O_EXCL))) # creates, too
	killed = creates, creates_temp, cuts, removes, holds[0], syncs[0], renames[0], fills
	for pid in killed:
		os.kill(pid, signal.SIGKILL)
	seconds = 3 * float(os.environ.get("TEST_SLOW") or 1)
	for pid in killed:
		wait(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, seconds)
	assert ckptfs("status", mnt)[0] == 0
	assert read(mnt + "/" + kept[0]) == new and read(mnt + "/closed.pt") == new
	for name in kept[1:4]:
		assert read(mnt + "/" + name) == old, name
	for name in kept[:5]:
		assert read(back + "/" + name) == old, name
finally:
	subprocess.run(["fsfreeze", "-u", back], check=True)
wait(lambda: status()["requests"]["in_flight"] == 0)
wait(lambda: not pending())
want = {name: old for name in kept} | {kept[0]: new, "closed.pt": new, "closed2.pt": new[::-1]}
for name, content in want.items():
	if name == kept[6] and not os.path.exists(mnt + "/" + name):
		assert not os.path.exists(back + "/" + name)
		continue # the removal came through
	assert read(mnt + "/" + name) == content == read(back + "/" + name), name
	verify(back + "/" + name)
assert set(names()) - set("abcd") <= set(want), names()
for path in mnt + "/a/created.pt", mnt + "/b/.tmpAbC123", mnt + "/d/huge.pt":
	assert not os.path.exists(path) or read(path) == b"", path # as of any create that was given up
wait(lambda: not any(staging(back + "/" + name) for name in ("", "a", "b", "c", "d")))
assert {f["path"] for f in failures() if f["op"] == "save"} == {kept[1], kept[2], "new.pt.tmp"}, failures()

# And so on, as if nothing had been.
for name in kept[4], "a/created.pt", "d/huge.pt":
	save(mnt + "/" + name, new)
	wait_for(mnt + "/" + name)
	assert read(back + "/" + name) == new
wait(lambda: status()["open_handles"] == 0)
os.kill(goes_on[0], signal.SIGKILL)
END

freezing ext4
freezing xfs
