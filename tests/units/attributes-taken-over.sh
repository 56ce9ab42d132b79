#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What replaces a file has its mode, owner, ACL and extended attributes, whoever saves; but not its digest, and no ACL
# that the old one did not have.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/units/units.bash"

needs_fuse
needs setfacl getfacl setpriv
loop_fs ext4 128 "$TEST_TMP/disk"
mount_ckptfs "$TEST_TMP/disk"
chmod 777 "$BACK"
program <<'END'
from units import *

x, on_backing = mnt + "/x.pt", back + "/x.pt"

def facl(path):
	out = subprocess.run(["getfacl", "-ncp", path], check=True, stdout=subprocess.PIPE).stdout
	return out.decode().strip()

def look(path):
	st = os.stat(path)
	return st.st_mode, st.st_uid, st.st_gid, facl(path), os.getxattr(path, "user.note"), os.getxattr(path, "trusted.t")

def as_user(uid, groups, main):
	def run():
		os.setgroups(groups)
		os.setgid(uid)
		os.setuid(uid)
		main()
	assert reap(child(run)) == 0

def check(before, content):
	assert look(x) == before, (look(x), before)
	published()
	assert read(on_backing) == content
	assert look(on_backing) == before == look(x)
	verify(on_backing)

# By everybody who may write to it. (Time passes between the saves, for the digest to differ in its time.)
save(x, data(1, MB), mode=0o640)
os.chown(x, 1200, 1300)
os.chmod(x, 0o664)
published()
subprocess.run(["setfacl", "-m", "u:1400:rw,g:1500:r", x], check=True)
os.setxattr(x, "user.note", b"kept")
os.setxattr(x, "trusted.t", b"kept too")
before = look(x)
assert "user:1400:rw-" in before[3]
number = inode(x)
for nr, (uid, groups) in enumerate([(0, []), (1200, []), (1250, [1300]), (1400, [])]):
	content = data(nr, 300000)
	as_user(uid, groups, lambda: save(x, content))
	check(before, content)
	assert inode(x) != number
	number = inode(x)
	as_user(uid, groups, lambda: os.close(os.open(x, os.O_RDWR))) # changes nothing
	published()
	assert inode(x) == number

# In a directory that gives others access by default: not to a file to which they had none.
os.mkdir(mnt + "/d", 0o777)
save(mnt + "/d/x.pt", b"private", mode=0o600)
published()
subprocess.run(["setfacl", "-d", "-m", "u:1400:rwx,o::rwx", mnt + "/d"], check=True)
before = facl(mnt + "/d/x.pt")
save(mnt + "/d/x.pt", b"private too")
assert facl(mnt + "/d/x.pt") == before, facl(mnt + "/d/x.pt")
as_user(1400, [], lambda: fails(errno.EACCES, read, mnt + "/d/x.pt"))
published()
assert facl(back + "/d/x.pt") == before
save(mnt + "/d/new.pt", b"shared") # has what the directory says
assert "user:1400:rwx" in facl(mnt + "/d/new.pt")

# Who may write to the file but not to its directory changes it in place.
os.mkdir(mnt + "/closed", 0o755)
save(mnt + "/closed/x.pt", data(5, MB), mode=0o666)
os.chmod(mnt + "/closed/x.pt", 0o666)
published()
number = inode(mnt + "/closed/x.pt")
as_user(1200, [], lambda: save(mnt + "/closed/x.pt", b"short"))
assert inode(mnt + "/closed/x.pt") == number and read(back + "/closed/x.pt") == b"short"
verify(back + "/closed/x.pt", 1) # has no digest
# Who may not write to it: nothing happens.
before = os.stat(x)
as_user(1600, [], lambda: fails(errno.EACCES, save, x, b"no"))
os.chmod(x, 0o444)
as_user(1200, [], lambda: fails(errno.EACCES, save, x, b"no"))
assert inode(x) == before.st_ino and os.stat(x).st_size == before.st_size and not staging()

# A new file that nobody else may write to; changes of an unpublished one stay.
os.chmod(mnt, 0o777)
def make():
	os.umask(0)
	fd = os.open(mnt + "/r.pt", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
	os.write(fd, b"once")
	os.chmod(mnt + "/r.pt", 0o640)
	os.setxattr(fd, "user.a", b"b")
	os.utime(mnt + "/r.pt", ns=(10**18, 10**18 + 5))
	os.close(fd)
as_user(1200, [], make)
for _ in range(2):
	for path in mnt + "/r.pt", back + "/r.pt":
		if path.startswith(mnt) or os.path.exists(path):
			st = os.stat(path)
			assert (st.st_mode & 0o7777, st.st_uid, st.st_mtime_ns) == (0o640, 1200, 10**18 + 5), st
			assert os.getxattr(path, "user.a") == b"b"
	published()
verify(back + "/r.pt")
assert failures() == []
END
umount_ckptfs
