#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A daemon that is killed in the middle of saves over existing files leaves the old ones whole, and those new ones that
# were closed after an fsync; fsck clears away what it left, and the next mount saves as ever.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
loop_fs ext4 200 "$TEST_TMP/disk"
mount_ckptfs -o flush_bw=16M "$TEST_TMP/disk"

cat >"$TEST_TMP/names.py" <<'END'
from units import *

old, new = data(1, MB + 5), data(2, 3 * MB + 7)
synced = ["synced.pt", "renamed.pt", "renamed-open.pt", "directory.pt", "by-name.pt"]
unsynced = ["closed.pt", "replaced.pt", "open.pt", "open-synced.pt", "cut.pt"]
END

program <<END
$(cat "$TEST_TMP/names.py")
for name in synced + unsynced:
	save(mnt + "/" + name, old)
published()

def begin(name, sync=False):
	fd = os.open(mnt + "/" + name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
	os.write(fd, new)
	if sync:
		os.fsync(fd)
	return fd

def rename(name):
	os.rename(mnt + "/" + name + ".tmp", mnt + "/" + name)

def sync_by(path):
	fd = os.open(path, os.O_RDONLY)
	os.fsync(fd)
	os.close(fd)

# Promised: synced, and closed or renamed then, or its directory synced.
os.close(begin("synced.pt", True))
os.close(begin("renamed.pt.tmp", True))
rename("renamed.pt")
fd = begin("renamed-open.pt.tmp", True)
rename("renamed-open.pt")
os.close(fd)
os.close(begin("directory.pt.tmp", True))
rename("directory.pt")
sync_by(mnt)
os.close(begin("by-name.pt"))
sync_by(mnt + "/by-name.pt")

# Not promised, and not that quickly on the storage: something large is on its way there first.
fds = [begin("open-synced.pt", True), begin("open.pt"), os.open(mnt + "/cut.pt", os.O_TRUNC | os.O_WRONLY)]
save(mnt + "/huge.pt", data(3, 40 * MB))
os.close(begin("closed.pt"))
os.close(begin("replaced.pt.tmp"))
rename("replaced.pt")
assert {"closed.pt", "replaced.pt", "open.pt", "open-synced.pt", "cut.pt", "huge.pt"} == set(pending()), pending()
os.kill(status()["pid"], signal.SIGKILL)

def is_dead():
	try:
		os.listdir(mnt)
	except OSError as e:
		return e.errno == errno.ENOTCONN
wait(is_dead)
for fd in fds:
	fails(errno.ENOTCONN, os.write, fd, b"more")
	fails(errno.ENOTCONN, os.close, fd)
assert len(staging()) == 6, staging()
END
umount_ckptfs # which clears what the dead one left

cat >"$TEST_TMP/after.py" <<END
$(cat "$TEST_TMP/names.py")
for name in synced + unsynced:
	assert read(mnt + "/" + name) == read(back + "/" + name) == (new if name in synced else old), name
	verify(back + "/" + name)
assert set(names()) - {".ckptfs"} - set(staging()) == set(synced + unsynced), names()
END
MNT=$BACK
program <"$TEST_TMP/after.py"

# With what is left there it is mounted as ever, and saves.
mount_ckptfs "$TEST_TMP/disk"
program <"$TEST_TMP/after.py"
program <<END
$(cat "$TEST_TMP/names.py")
assert names() == sorted(synced + unsynced), names() # the hidden ones are not listed
for name in "cut.pt", "huge.pt":
	save(mnt + "/" + name, new)
	wait_for(mnt + "/" + name)
	assert read(back + "/" + name) == new
save(mnt + "/cut.pt", old)
os.unlink(mnt + "/huge.pt")
assert len(staging()) >= 6
END
umount_ckptfs
expect_fail "$CKPTFS" fsck "$BACK"
assert_contains "$OUT" "6 left by saves that did not end"
expect_ok "$CKPTFS" fsck --discard "$BACK"
assert_eq "$(find "$BACK" -name '.ckptfs-*')" "" "left by fsck"
expect_ok "$CKPTFS" fsck "$BACK"
MNT=$BACK
program <"$TEST_TMP/after.py"

# At once after the close that promises it.
mount_ckptfs "$TEST_TMP/disk"
program <<END
$(cat "$TEST_TMP/names.py")
daemon = status()["pid"]
for nr in range(5):
	fd = os.open(mnt + "/cut.pt", os.O_WRONLY | os.O_TRUNC)
	os.write(fd, new[nr:])
	os.fsync(fd)
	os.close(fd)
os.kill(daemon, signal.SIGKILL)
END
umount_ckptfs
MNT=$BACK
program <<END
$(cat "$TEST_TMP/names.py")
assert read(back + "/cut.pt") == new[4:] and not staging()
verify(back + "/cut.pt")
END
