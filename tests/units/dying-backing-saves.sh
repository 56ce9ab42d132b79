#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The disk of the backing fails for good in the middle of saves: the program gets EIO, failures.json has what was closed
# before, status answers, and umount ends and says what is lost.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse

# dying KIND
dying() {
	loop_fs "$1" 400 "$TEST_TMP/disk.$1"
	mount_ckptfs -o flush_bw=3M,io_retry_s=1 "$TEST_TMP/disk.$1" "$TEST_TMP/mnt.$1"
	program <"$TEST_TMP/dying.py"
	expect_ok timeout 5 "$CKPTFS" status "$MNT"
	run timeout 30 "$CKPTFS" umount "$MNT"
	[ "$RC" -le 1 ] || die "umount: $RC $OUT"
	mountpoint -q "$MNT" && die "still mounted: $OUT"
	# The filesystem is as after a crash: what was published is there, and the old where something was not.
	umount "$BACK"
	mount "$LOOP_DEV" "$BACK" || die "cannot mount it again"
	program <"$TEST_TMP/after.py"
	mount_ckptfs "$TEST_TMP/disk.$1" "$TEST_TMP/mnt.$1"
	expect_ok cmp "$MNT/old0.pt" "$BACK/old1.pt"
	umount_ckptfs
}

cat >"$TEST_TMP/dying.py" <<'END'
from units import *
import struct

old, new = data(1, 100077), data(2, 9 * MB + 3)
olds = [mnt + "/old%d.pt" % nr for nr in range(4)]
for path in olds:
	save(path, old)
	wait_for(path)

# One that was closed, one that was written, one that will be; all in the cache alone, mostly.
save(olds[0], new)
written = os.open(olds[1], os.O_WRONLY | os.O_TRUNC)
os.write(written, new)
begun = os.open(olds[2], os.O_WRONLY | os.O_TRUNC)
waiter = subprocess.Popen([os.environ["CKPTFS"], "wait", olds[0]], stderr=subprocess.PIPE)
assert b"waiting for" in waiter.stderr.readline()
dir_fd = os.open(back, os.O_RDONLY)
fcntl.ioctl(dir_fd, 0x8004587d, struct.pack("I", 1)) # GOINGDOWN, log flushed
os.close(dir_fd)

def fails_somewhere(fd, content):
	"""At a write, at fsync; and close tells it again, as for any program that looks there only."""
	try:
		os.write(fd, content)
		os.fsync(fd)
	except OSError as e:
		assert e.errno == errno.EIO, e
	else:
		raise AssertionError("saved on a dead disk")
	fails(errno.EIO, os.close, fd)

fails_somewhere(written, b"more")
fails_somewhere(begun, new)
assert b"Input/output error" in waiter.communicate(timeout=30)[1] and waiter.returncode == 1
wait(lambda: not pending())
listed = {f["path"]: f for f in failures() if f["op"] == "save"}
assert set(listed) == {"old0.pt", "old1.pt", "old2.pt"}, listed
assert all(f["errno"] == "EIO" and "Input/output error" in f["message"] for f in listed.values()), listed
assert "Input/output error" in ckptfs("why", olds[0])[1]
for path in olds[3], mnt + "/new.pt":
	fails(errno.EIO, os.open, path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
assert reap(child(lambda: fails(errno.EIO, os.unlink, olds[3]))) == 0
assert ckptfs("status", mnt)[0] == 0
END

cat >"$TEST_TMP/after.py" <<'END'
from units import *

for nr in range(4):
	assert read(back + "/old%d.pt" % nr) == data(1, 100077), nr
	verify(back + "/old%d.pt" % nr)
END

dying ext4
dying xfs

# Unmounted while a save is under way, on a disk that is dead: that ends, too, and tells what is lost.
loop_fs ext4 200 "$TEST_TMP/disk"
mount_ckptfs -o flush_bw=8M,io_retry_s=1 "$TEST_TMP/disk"
program <<'END'
from units import *
import struct

save(mnt + "/x.pt", data(1, 9 * MB))
dir_fd = os.open(back, os.O_RDONLY)
fcntl.ioctl(dir_fd, 0x8004587d, struct.pack("I", 1))
END
run timeout 30 "$CKPTFS" umount "$MNT"
assert_eq "$RC" 1 "exit status of umount: $OUT"
assert_contains "$OUT" "'x.pt' could not be written to the backing: Input/output error"
mountpoint -q "$MNT" && die "still mounted"
exit 0
