#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Stores to a shared mapping for which the backing has no room: msync, fsync or close says ENOSPC, failures.json names
# the file, and once there is room the same pages can be written. On a small ext4 and on a small tmpfs.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

map_too_much() {
	mount_ckptfs "$1" "$2"
	expect_ok "$PYTHON" - "$MNT" "$BACK" <<'END'
import errno, mmap, os, sys
SIZE = 1 << 20
mnt, back = sys.argv[1:]
filler = os.open(back + "/filler", os.O_CREAT | os.O_WRONLY)
st = os.fstatvfs(filler)
os.posix_fallocate(filler, 0, st.f_bfree * st.f_frsize - SIZE // 2)
fd = os.open(mnt + "/mapped", os.O_CREAT | os.O_RDWR)
os.ftruncate(fd, SIZE)
m = mmap.mmap(fd, SIZE)
m[:] = b"m" * SIZE
told = []
def call(f, *args):
	try:
		f(*args)
	except OSError as e:
		told.append(errno.errorcode[e.errno])
call(m.flush)
call(os.fsync, fd)
print("told:", told)
got = os.stat(back + "/mapped").st_blocks * 512
assert got < SIZE, "there was room"
os.ftruncate(filler, 0)
m[:] = b"n" * SIZE
m.flush()
os.fsync(fd)
assert open(back + "/mapped", "rb").read() == b"n" * SIZE
m.close()
call(os.close, fd)
assert told and set(told) == {"ENOSPC"}, told
END
	# Who meets it is open: the kernel's write-back, or the fsync that waits for it.
	assert_eq "$(failures_of "sorted({(x['errno'], x['path']) for x in f})")" "[('ENOSPC', 'mapped')]"
	umount_ckptfs
}

needs_fuse
loop_fs ext4 16 "$TEST_TMP/disk"
map_too_much "$TEST_TMP/disk" "$TEST_TMP/mnt1"
mkdir "$TEST_TMP/tmpfs"
mount -t tmpfs -o size=3m tmpfs "$TEST_TMP/tmpfs" || skip "cannot mount a tmpfs"
map_too_much "$TEST_TMP/tmpfs" "$TEST_TMP/mnt2"
