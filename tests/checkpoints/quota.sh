#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Quotas, of a project (a directory tree) and of a user: a checkpoint above its quota fails with that cause, and gives
# back what it took of it; what was removed already goes first; nothing is ever renamed over a project's border.
#
# needs: root
# timeout: 90

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/checkpoints/checkpoints.bash"

needs_fuse
needs losetup mkfs.ext4 chattr setpriv
truncate -s 200M "$TEST_TMP/image"
LOOP_DEV=$(losetup -f --show "$TEST_TMP/image") || skip "no loop device"
_loops+=("$LOOP_DEV")
expect_ok mkfs.ext4 -q -F -O quota,project -E quotatype=usrquota:prjquota "$LOOP_DEV"
mkdir -p "$TEST_TMP/disk"
mount -o usrquota,prjquota "$LOOP_DEV" "$TEST_TMP/disk" 2>/dev/null || skip "this kernel has no quotas on ext4"
mkdir "$TEST_TMP/disk/project"
chattr -p 77 +P "$TEST_TMP/disk/project" || skip "no projects here"
mkdir -m 777 "$TEST_TMP/disk/open"
mount_ckptfs -o quiet_s=3600,order_timeout_s=3600 "$TEST_TMP/disk"
export LOOP_DEV
program <<'END'
from checkpoints import *
import checkpoints, shutil, struct

def save(path, content):
	"""As programs write that take a short write for what it is."""
	with open(path, "wb", buffering=0) as file:
		while content:
			content = content[file.write(content[:MB]):]

checkpoints.save = save

USER, PROJECT = 0, 2
libc = ctypes.CDLL(None, use_errno=True)
project, user = mnt + "/project", mnt + "/open"

def limit(kind, number, size):
	"""At most that many bytes."""
	blocks = size // 1024
	quota = struct.pack("8QI4x", blocks, blocks, 0, 0, 0, 0, 0, 0, 1) # QIF_BLIMITS
	device = os.environ["LOOP_DEV"].encode()
	if libc.quotactl(0x800008 << 8 | kind, device, number, quota): # Q_SETQUOTA
		raise OSError(ctypes.get_errno(), "quotactl")

def used(kind, number):
	"""Bytes."""
	quota = ctypes.create_string_buffer(72)
	device = os.environ["LOOP_DEV"].encode()
	if libc.quotactl(0x800007 << 8 | kind, device, number, quota): # Q_GETQUOTA
		raise OSError(ctypes.get_errno(), "quotactl")
	return struct.unpack_from("8QI", quota)[2]

def is_refused(name, files, size, kind, number):
	"""The job is told once: by the write that finds no room or, where the flush does, by its next call. Nothing stays."""
	before = used(kind, number)
	try:
		begin(mnt + "/" + name, files, size)
		told = False
	except OSError as e:
		assert e.errno in (errno.EDQUOT, errno.ENOENT), e # what has failed meanwhile is hidden
		told = e.errno == errno.EDQUOT
	wait(lambda: any(f["path"] == name and "quota" in f["message"] for f in failures()))
	wait(lambda: not staging(os.path.dirname(back + "/" + name)))
	if not told:
		fails(errno.EDQUOT, os.mkdir, mnt + "/" + name)
	wait(lambda: used(kind, number) < before + MB)

# The staging directory and trash lie beside the target, within the project.
limit(PROJECT, 77, 40 * MB)
fails(errno.EXDEV, os.rename, back + "/open", back + "/project/open") # there is a border
first = make(project + "/step-1", 2, 7 * MB, 1)
is_whole("project/step-1", first)
is_refused("project/step-2", 2, 17 * MB, PROJECT, 77)
second = make(project + "/step-3", 2, 7 * MB, 2)
is_whole("project/step-3", second)

# A removal that waits gives its part back first.
shutil.rmtree(project + "/step-1")
third = make(project + "/step-4", 2, 10 * MB, 3)
is_whole("project/step-4", third)
is_whole("project/step-3", second)
assert not os.path.exists(back + "/project/step-1")

# Of a user: another is not held up.
def as_user():
	os.setgid(1001)
	os.setuid(1001)
	first = make(user + "/step-1", 1, 7 * MB, 1)
	is_refused("open/step-2", 2, 17 * MB, USER, 1001)
	third = make(user + "/step-3", 1, 7 * MB, 3)
	assert read(user + "/step-3/__0_0.distcp") == third["__0_0.distcp"]
	assert read(user + "/step-1/__0_0.distcp") == first["__0_0.distcp"]

limit(USER, 1001, 20 * MB)
assert reap(child(as_user)) == 0
is_whole("open/by-root", make(user + "/by-root", 2, 17 * MB, 4))
END
umount_ckptfs
