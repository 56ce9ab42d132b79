#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# With room for four pinned inodes only: hundreds of files in use at once, renamed, unlinked and replaced while open,
# while mapped, and while somebody's working directory, stay themselves.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/fs/faults.bash"

needs_fuse
export CKPTFS_PIN_BUDGET=4
mount_ckptfs
expect_ok "$PYTHON" - "$MNT" <<'END'
import mmap, os, random, sys
os.chdir(sys.argv[1])
random.seed(3)
for d in range(10):
	os.makedirs("d%d/sub/deep" % d)
names, handles = {}, []
for n in range(300):
	p = "d%d/sub/deep/f%d" % (n % 10, n)
	open(p, "w").write("%d" % n)
	names[n] = p
for turn in range(3000):
	n = random.choice(list(names))
	p = names[n]
	what = random.randrange(9)
	if what == 0:
		q = "d%d/sub/%s-%d" % (random.randrange(10), "moved", turn)
		os.rename(p, q)
		names[n] = q
	elif what == 1 and len(names) > 100:
		other = random.choice(list(names))
		if other != n:
			os.rename(p, names[other])
			names[other], names[n] = None, names[other]
			del names[other]
	elif what == 2:
		handles.append((n, os.open(p, os.O_RDWR), None))
	elif what == 3:
		with open(p, "r+b") as f:
			handles.append((n, -1, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)))
	elif what == 4 and len(names) > 100:
		os.unlink(p)
		del names[n]
	elif what == 5:
		d = random.randrange(10)
		os.rename("d%d/sub" % d, "d%d/sub2" % d)
		assert all(os.path.exists(v.replace("d%d/sub/" % d, "d%d/sub2/" % d)) for v in random.sample(list(names.values()), 5))
		os.rename("d%d/sub2" % d, "d%d/sub" % d)
	elif what == 6:
		os.chmod(p, 0o600 + turn % 64)
		assert os.stat(p).st_mode & 0o777 == 0o600 + turn % 64
	elif what == 7:
		here = os.open(os.path.dirname(p), os.O_RDONLY)
		assert os.stat(os.path.basename(p), dir_fd=here).st_size == len(str(n))
		os.close(here)
	else:
		assert open(p).read() == str(n), (turn, p, n)
	if handles:
		n, fd, m = random.choice(handles)
		if m is None:
			assert os.pread(fd, 10, 0) == b"%d" % n and os.fstat(fd).st_size == len(str(n)), (turn, n)
		else:
			assert m[:] == b"%d" % n, (turn, n)
	if len(handles) > 60:
		n, fd, m = handles.pop(random.randrange(60))
		m is not None or os.close(fd)
for n, p in names.items():
	assert open(p).read() == str(n)
# A working directory, moved and evicted.
os.chdir("d0/sub/deep")
os.rename(sys.argv[1] + "/d0", sys.argv[1] + "/e0")
for n in range(1, 10):
	os.listdir(sys.argv[1] + "/d%d/sub" % n)
open("here", "w").write("here")
assert open(sys.argv[1] + "/e0/sub/deep/here").read() == "here"
assert os.getcwd() == sys.argv[1] + "/e0/sub/deep"
END
wait_until 10 status_is "s['open_handles'] == 0"
umount_ckptfs
