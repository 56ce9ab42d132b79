#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A backing on which root has no rights over others' files (as with root_squash; here the daemon lacks
# CAP_DAC_OVERRIDE): everything works for the owner, nothing for root, also when few inodes are kept pinned.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
needs setpriv
MNT=$TEST_TMP/mnt
mkdir -p "$TEST_TMP/back" "$MNT"
mkdir -m 700 "$TEST_TMP/back/home"
chown 1001:1001 "$TEST_TMP/back/home"
for budget in 16384 3; do
	export CKPTFS_PIN_BUDGET=$budget
	expect_ok setpriv --bounding-set -dac_override,-dac_read_search,-fowner,-chown -- \
		"$CKPTFS" mount -o host_cache_size=64M "$TEST_TMP/back" "$MNT"
	expect_ok as_user 1001 "$PYTHON" - "$MNT/home" <<'END'
import mmap, os, shutil, sys
os.chdir(sys.argv[1])
os.makedirs("a/b/c/d/e", 0o700)
for n in range(20):
	p = "a/b/c/d/e/f%d" % n
	with open(os.open(p, os.O_CREAT | os.O_RDWR, 0o600), "w+b") as f:
		f.write(b"x" * 10000)
	os.symlink("f%d" % n, "a/b/c/d/e/l%d" % n)
for n in range(20):
	p = "a/b/c/d/e/f%d" % n
	assert open(p, "rb").read() == b"x" * 10000 == open("a/b/c/d/e/l%d" % n, "rb").read()
	with open(p, "r+b") as f:
		m = mmap.mmap(f.fileno(), 0)
		m[0] = 7
		m.flush()
	os.truncate(p, 100)
	os.chmod(p, 0o640)
	os.utime(p, (1, 2))
	st = os.stat(p)
	assert (st.st_size, st.st_mode & 0o777, st.st_mtime, st.st_uid) == (100, 0o640, 2, 1001)
	try:
		os.setxattr(p, "user.x", b"1")
		assert os.listxattr(p) == ["user.x"]
	except OSError as e:
		assert e.errno == 95, e
	os.link(p, p + ".hard")
	os.rename(p, "a/b/moved%d" % n)
	os.statvfs("a/b/moved%d" % n)
	os.unlink(p + ".hard")
assert len(os.listdir("a/b")) == 21 and len(os.listdir("a/b/c/d/e")) == 20
fd = os.open("a/b", os.O_RDONLY)
os.fsync(fd)
shutil.rmtree("a")
open("kept", "w").write("secret")
END
	expect_fail cat "$MNT/home/kept"
	assert_contains "$OUT" "Permission denied"
	expect_fail ls "$MNT/home"
	expect_fail as_user 1002 ls "$MNT/home"
	umount_ckptfs
done
