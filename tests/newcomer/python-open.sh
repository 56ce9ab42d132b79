#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ckptfs.open: a file gets its name when it is closed, whole; an exception that leaves the block, a lost object, a killed
# process and another writer of the same name leave what had the name. So in a mount, and on any other filesystem; whatever
# the name is, and where a rule of the mount does not know the temporary one.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/python/python.bash"

needs_fuse
export PYTHONPATH=$PYTHONPATH:$SRC/tests/newcomer
mkdir plain
mount_ckptfs
for where in "$MNT" "$TEST_TMP/plain"; do
	WHERE=$where program <<'END'
from told import *
import io, re, subprocess
top, mnt = os.environ["WHERE"], os.environ["MNT"]
path = top + "/a.ckpt"

def content():
	with open(path, "rb") as file:
		return file.read()

def kept(names, want=b"old"):
	assert content() == want and sorted(os.listdir(top)) == names, (content(), os.listdir(top))
	if top == mnt:
		ckptfs.wait(path)
		with open(os.environ["BACK"] + "/a.ckpt", "rb") as file:
			assert file.read() == want

with ckptfs.open(path) as file:
	assert file.write(b"0ld") == 3 and file.tell() == 3 and not file.closed and file.name == path
	file.seek(0)
	file.write(b"o")
	assert not os.path.exists(path)
assert file.closed
kept(["a.ckpt"])
file.close()
# By an exception: cut in the middle.
try:
	with ckptfs.open(path) as file:
		file.write(b"torn")
		file.flush()
		raise KeyError("in between")
except KeyError:
	pass
kept(["a.ckpt"])
# Given up, or lost, or the program ends without it.
file = ckptfs.open(path)
file.write(b"torn")
file.abandon()
file.close()
kept(["a.ckpt"])
file = ckptfs.open(path)
file.write(b"torn")
del file
kept(["a.ckpt"])
child = "import ckptfs, sys; file = ckptfs.open(sys.argv[1]); file.write(b'torn'); file.flush(); print(flush=True); %s"
subprocess.run([sys.executable, "-c", child % "sys.exit(0)", path], check=True, stdout=subprocess.DEVNULL)
kept(["a.ckpt"])
subprocess.run([sys.executable, "-c", child % "import os; os.kill(os.getpid(), 9)", path], check=False, stdout=subprocess.DEVNULL)
if top == mnt: # hidden as soon as the death was seen
	while os.listdir(top) != ["a.ckpt"]:
		pass
else:
	left, = set(os.listdir(top)) - {"a.ckpt"}
	assert re.fullmatch(r"\.tmp[A-Za-z0-9]{6}", left), left
	os.unlink(top + "/" + left)
kept(["a.ckpt"])
# Two writers of one name at once, in one process or two: each file is whole, the last one stays, and who gives up takes away
# no more than his own.
for other in "ended", "raised":
	one, two = ckptfs.open(path), ckptfs.open(path)
	for file, letter in (one, b"1"), (two, b"2"):
		file.write(letter * 100000)
		file.flush()
	two.write(b"2" * 100000)
	if other == "ended":
		two.close()
		assert content() == b"2" * 200000
	else:
		two.abandon()
	one.write(b"1" * 100000)
	one.close()
	kept(["a.ckpt"], b"1" * 200000)
racer = "import ckptfs, sys\nfor i in range(20):\n\twith ckptfs.open(sys.argv[1]) as f:\n\t\tfor j in range(20): f.write(sys.argv[2].encode() * 5000); f.flush()"
racers = [subprocess.Popen([sys.executable, "-c", racer, path, letter]) for letter in "xy"]
assert [racer.wait() for racer in racers] == [0, 0]
assert content() in (b"x" * 100000, b"y" * 100000)
with ckptfs.open(path) as file:
	file.write(b"old")
kept(["a.ckpt"], b"old")
# What takes a file takes this one.
with ckptfs.open(path) as file, io.TextIOWrapper(file, write_through=True) as text:
	text.write("new")
kept(["a.ckpt"], b"new")
# And closes it, also when an exception comes by: the end of the block decides.
try:
	with ckptfs.open(path) as file, io.TextIOWrapper(file) as text:
		text.write("torn")
		raise KeyError
except KeyError:
	pass
kept(["a.ckpt"], b"new")
# A child after fork has a copy, whose end is nothing to the file.
file = ckptfs.open(path)
child = os.fork()
if not child:
	file.__del__()
	os._exit(0)
os.waitpid(child, 0)
file.write(b"new")
file.close()
kept(["a.ckpt"], b"new")
with ckptfs.open(path, "rb") as file:
	assert file.read() == b"new"
try:
	ckptfs.open(path, "xb")
except FileExistsError as error:
	assert error.filename == path
else:
	raise AssertionError
with ckptfs.open(top + "/b.ckpt", "xb") as file:
	file.write(b"x")
assert sorted(os.listdir(top)) == ["a.ckpt", "b.ckpt"]
os.unlink(top + "/b.ckpt")
# The path is that of the open, also when the program goes elsewhere; a link stays, and its target is written.
os.mkdir(top + "/sub")
os.chdir(top)
with ckptfs.open("a.ckpt") as file:
	os.chdir(top + "/sub")
	file.write(b"from here")
kept(["a.ckpt", "sub"], b"from here")
os.chdir("/")
os.symlink("../a.ckpt", top + "/sub/link.ckpt")
os.symlink("b.ckpt", top + "/sub/ahead.ckpt")
for link, target in ("link", "a.ckpt"), ("ahead", "sub/b.ckpt"):
	with ckptfs.open(top + "/sub/%s.ckpt" % link) as file:
		file.write(b"through a link")
	assert os.path.islink(top + "/sub/%s.ckpt" % link)
	with open(top + "/" + target, "rb") as file:
		assert file.read() == b"through a link"
kept(["a.ckpt", "sub"], b"through a link")
# The longest name, and one more.
for length in 251, 255:
	with ckptfs.open(top + "/sub/" + "n" * (length - 3) + ".pt") as file:
		file.write(b"x")
try:
	ckptfs.open(top + "/sub/" + "n" * 253 + ".pt")
except OSError as error:
	assert error.errno == errno.ENAMETOOLONG
else:
	raise AssertionError
# A name that no rule claims, new and again, is as whole as any.
for n in range(2):
	with ckptfs.open(top + "/sub/weights.dat") as file:
		file.write(b"%d" % n * 100000)
		file.flush()
		assert os.path.exists(top + "/sub/weights.dat") == bool(n)
		if top == mnt:
			assert not n or os.path.getsize(os.environ["BACK"] + "/sub/weights.dat") == 100000
	with open(top + "/sub/weights.dat", "rb") as file:
		assert file.read() == b"%d" % n * 100000
	if top == mnt:
		ckptfs.wait(top + "/sub/weights.dat")
		for where in mnt, os.environ["BACK"]:
			subprocess.run([os.environ["CKPTFS"], "verify", where + "/sub/weights.dat"], check=True, stdout=subprocess.DEVNULL)
assert not [name for name in os.listdir(top + "/sub") if name.startswith(".")] and not said, said
for mode in "ab", "r+b", "w", "r", "wb+":
	try:
		ckptfs.open(path, mode)
	except ValueError as error:
		assert "ckptfs.open writes new files of bytes, 'wb' or 'xb', or reads, 'rb'" in str(error), error
	else:
		raise AssertionError(mode)
try:
	ckptfs.open(1)
except TypeError as error:
	assert "wants a path" in str(error)
else:
	raise AssertionError
try:
	ckptfs.open(top)
except IsADirectoryError as error:
	assert error.filename == top
else:
	raise AssertionError
text = told(errno.ENOENT, ckptfs.open, top + "/none/a.ckpt")
assert text == "%s/none/a.ckpt: its directory does not exist. os.makedirs('%s/none', exist_ok=True) makes it" % (top, top), text
END
done
umount_ckptfs

# A mount whose own rules do not know the temporary name: the file is synced before it gets its name, and it is said once that
# no digest vouches for it.
cat >rules.json <<'END'
{"rules": [{"name": "single-file", "kind": "file", "match": ["?*.mine"], "done": [["all_closed"]]}]}
END
mount_ckptfs -o "config=$TEST_TMP/rules.json" "$TEST_TMP/back2" "$TEST_TMP/mnt2"
program <<'END'
from told import *
mnt = os.environ["MNT"]
synced, fsync = [], os.fsync
os.fsync = lambda fd: (synced.append(os.readlink("/proc/self/fd/%d" % fd)), fsync(fd))
for n in range(2):
	with ckptfs.open(mnt + "/a.ckpt") as file:
		file.write(b"x")
assert said == ["%s/a.ckpt is no checkpoint here: it has no digest. Call it .pt or .safetensors, or add a rule (ckptfs-rules(5))" % mnt], said
assert len(synced) == 4 and "/.tmp" in synced[0] and synced[1] == mnt, synced
os.environ["CKPTFS_REQUIRE"] = "1"
file = ckptfs.open(mnt + "/b.ckpt")
file.write(b"y")
text = told(errno.EINVAL, file.close)
assert text.startswith(mnt + "/b.ckpt was written, but is no checkpoint here"), text
assert sorted(os.listdir(mnt)) == ["a.ckpt", "b.ckpt"]
END
umount_ckptfs
