#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Pointers that get their names by a rename, and symbolic links, name what is committed as well: the rename and the link
# succeed at once, but the name shows what it showed before until what it names is committed, and for ever if that fails.
# Also of a unit that is a single file. What a later one has replaced, or was removed, does not come back.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
mount_ckptfs -o quiet_s=3600
program <<'END'
from checkpoints import *

latest, last = mnt + "/latest", mnt + "/last"

def on_backing(name):
	path = back + "/" + name
	if os.path.islink(path):
		return os.readlink(path)
	return read(path).decode() if os.path.exists(path) else None

def replace(tag):
	with open(latest + ".tmp", "w") as file:
		file.write(tag)
	os.replace(latest + ".tmp", latest)

def link(tag): # as ln -sfn does
	os.symlink(tag, last + ".new")
	assert os.readlink(last + ".new") == tag
	os.rename(last + ".new", last)

def shows():
	"""In the mount; it must be the same on the backing, where there is something."""
	now = read(latest).decode(), os.readlink(last)
	assert on_backing("latest") in (None, now[0]) and on_backing("last") in (None, now[1]), now
	return now

# What names nothing, or what is committed, is there at once.
replace("nothing")
link("nothing")
assert on_backing("latest") == on_backing("last") == "nothing"
make(mnt + "/step-1")
replace("step-1")
link("step-1")
assert on_backing("latest") == on_backing("last") == "step-1"

second = begin(mnt + "/step-2")
replace("step-2")
link(mnt + "/step-2")
assert shows() == ("step-1", "step-1"), shows()
assert names() == ["last", "latest", "step-1", "step-2"], names()
assert [g["waits_for"] for g in status()["pending"] if g["path"].startswith("la")] == 2 * ["the commit of 'step-2', which it names"]
with open(latest, encoding="utf-8") as before:
	end(mnt + "/step-2", second)
	wait_for(mnt + "/step-2")
	assert shows() == ("step-2", mnt + "/step-2"), shows()
	assert before.read() == "step-1"
wait(lambda: not staging())

# It fails.
begin(mnt + "/step-3")
replace("step-3")
link("step-3")
os.symlink("step-3", mnt + "/new")
assert os.readlink(mnt + "/new") == "step-3" and "new" in names() and not os.path.lexists(back + "/new")
fails(errno.EEXIST, os.symlink, "step-1", mnt + "/new")
assert ckptfs("commit", "--abandon", mnt + "/step-3")[0] == 0
wait(lambda: len([f for f in failures() if f["op"] == "pointer"]) == 3)
assert shows() == ("step-2", mnt + "/step-2"), shows()
assert "new" not in names() and not os.path.lexists(mnt + "/new")

# The later one counts, however it came; what need not wait overtakes both.
fourth = begin(mnt + "/step-4")
with open(latest, "w") as file:
	file.write("step-4")
replace("step-4")
replace("step-1")
link("step-4")
link("step-1")
end(mnt + "/step-4", fourth)
wait_for(mnt + "/step-4")
assert shows() == ("step-1", "step-1"), shows()
assert on_backing("latest") == on_backing("last") == "step-1"

# Removed, and moved, before it was applied.
fifth = begin(mnt + "/step-5")
replace("step-5")
os.unlink(latest)
fails(errno.ENOENT, os.stat, latest)
link("step-5")
os.unlink(last)
fails(errno.ENOENT, os.lstat, last)
os.symlink("step-5", mnt + "/a")
os.rename(mnt + "/a", mnt + "/b")
os.mkdir(mnt + "/elsewhere")
os.symlink("step-5", mnt + "/c")
os.rename(mnt + "/c", mnt + "/elsewhere/c")
assert os.readlink(back + "/elsewhere/c") == "step-5"
end(mnt + "/step-5", fifth)
wait_for(mnt + "/step-5")
assert names() == ["b", "elsewhere"] + ["step-%d" % i for i in (1, 2, 4, 5)], names()
assert not on_backing("latest") and not on_backing("last") and on_backing("b") == "step-5"

# fsync and close of one that waits do not.
sixth = begin(mnt + "/step-6")
for way in "written", "renamed":
	fd = os.open(latest if way == "written" else latest + ".tmp", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
	os.write(fd, b"step-6")
	os.fsync(fd)
	if way == "renamed":
		os.rename(latest + ".tmp", latest)
		os.fsync(fd)
	os.close(fd)
	fd = os.open(mnt, os.O_RDONLY)
	os.fsync(fd)
	os.close(fd)
	assert not on_backing("latest")
end(mnt + "/step-6", sixth)
wait_for(mnt + "/step-6")
assert on_backing("latest") == "step-6"

# Written again while what it got by a rename waits, where there is none yet.
os.unlink(latest)
seventh = begin(mnt + "/step-8")
replace("step-8")
assert read(latest) == b"step-8" and on_backing("latest") is None
save(latest, b"step-6")
wait(lambda: on_backing("latest") == "step-6")
assert read(latest) == b"step-6"
os.unlink(latest)
replace("step-8")
save(latest, b"step-8")
assert on_backing("latest") is None
end(mnt + "/step-8", seventh)
wait_for(mnt + "/step-8")
assert on_backing("latest") == "step-8" and read(latest) == b"step-8"

# A unit that is a single file: it is open, so it is not committed.
with open(mnt + "/epoch=1.ckpt", "wb") as file:
	file.write(data(1, 100))
	os.symlink("epoch=1.ckpt", mnt + "/last.ckpt")
	assert read(mnt + "/last.ckpt") is not None
	assert not os.path.lexists(back + "/last.ckpt")
wait(lambda: os.path.lexists(back + "/last.ckpt"))
assert read(back + "/last.ckpt") == data(1, 100)
wait(lambda: not pending())
END

# A daemon that is killed forgets those whose commit was not decided: fsck clears them away.
daemon=$(daemon_pid) || exit
program <<'END'
from checkpoints import *

begin(mnt + "/step-7")
save(mnt + "/latest", b"step-7")
os.symlink("step-7", mnt + "/new")
os.rename(mnt + "/new", mnt + "/last.ckpt")
END
kill9_and_reaped "$daemon" 20
umount -l "$MNT"
assert_eq "$(cat "$BACK/latest") $(readlink "$BACK/last.ckpt")" "step-8 epoch=1.ckpt"
run "$CKPTFS" fsck "$BACK"
assert_eq "$(grep -c "^unfinished" <<<"$OUT")" 4 "$OUT" # with the abandoned step-3
expect_ok "$CKPTFS" fsck --discard "$BACK"
assert_eq "$(find "$BACK" -name '.ckptfs-*' ! -name .ckptfs-commit.json ! -name .ckptfs-index.json)" "" "what is left"
mount_ckptfs
assert_eq "$(cat "$MNT/latest") $(readlink "$MNT/last.ckpt")" "step-8 epoch=1.ckpt"
umount_ckptfs
