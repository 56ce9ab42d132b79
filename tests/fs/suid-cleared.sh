#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# suid and sgid bits go when somebody else writes, by each way of writing, exactly as on a plain directory.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv
mount_ckptfs
status_is "s['features']['act_as_caller'] == 'yes'" || skip "the daemon cannot act as its callers here"
mkdir "$TEST_TMP/plain"
cat >"$TEST_TMP/use.py" <<'END'
import mmap, os, sys
os.chdir(sys.argv[1])
uid = int(sys.argv[2])
def fill(name, mode, owner):
	fd = os.open(name, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
	os.write(fd, b"z" * 8192)
	os.fchown(fd, owner, owner)
	os.fchmod(fd, mode)
	os.close(fd)
def by_write(fd):
	os.pwrite(fd, b"x", 0)
def by_map(fd):
	m = mmap.mmap(fd, 8192)
	m[0] = 1
	m.flush()
def by_copy(fd):
	os.copy_file_range(fd, fd, 100, 0, 4096)
ways = {
	"write": (os.O_WRONLY, by_write), "write rdwr": (os.O_RDWR, by_write), "append": (os.O_WRONLY | os.O_APPEND, by_write),
	"direct": (os.O_RDWR | os.O_DIRECT, lambda fd: os.pwrite(fd, mmap.mmap(-1, 4096), 0)),
	"ftruncate": (os.O_WRONLY, lambda fd: os.ftruncate(fd, 10)), "fallocate": (os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 100000)),
	"copy": (os.O_RDWR, by_copy), "trunc": (os.O_WRONLY | os.O_TRUNC, lambda fd: None), "nothing": (os.O_RDWR, lambda fd: None),
	"empty write": (os.O_WRONLY, lambda fd: os.write(fd, b"")), "read": (os.O_RDONLY, lambda fd: os.read(fd, 10)),
}
if sys.argv[3] == "yes":
	ways["map"] = (os.O_RDWR, by_map)
for owner in (0, uid):
	for mode in (0o6777, 0o4777, 0o2777, 0o2767, 0o6666):
		for name, (flags, way) in ways.items():
			fill("f", mode, owner)
			pid = os.fork()
			if not pid:
				os.setgroups([])
				os.setgid(uid)
				os.setuid(uid)
				fd = os.open("f", flags)
				way(fd)
				os.close(fd)
				os._exit(0)
			assert os.waitpid(pid, 0)[1] == 0, (name, mode)
			print(uid, owner, oct(mode), name, oct(os.stat("f").st_mode & 0o7777))
END
mapped=$(status_of "s['features']['direct_mmap']")
for uid in 1001 0; do
	expect_ok "$PYTHON" "$TEST_TMP/use.py" "$TEST_TMP/plain" "$uid" "$mapped"
	want=$OUT
	expect_ok "$PYTHON" "$TEST_TMP/use.py" "$MNT" "$uid" "$mapped"
	diff <(echo "$want") <(echo "$OUT") || die "modes on a plain directory (<) and on the mount (>) differ"
done
umount_ckptfs
