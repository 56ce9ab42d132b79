#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Committed checkpoints that are copied, with their commit files, by the usual programs, as root and as a user: each
# copy gets a commit file of its own. And one that a program writes, moves or changes is nobody's.
#
# needs: root

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
needs tar setpriv
mkdir -m 755 "$TEST_TMP/disk"
mount_ckptfs -o quiet_s=1 "$TEST_TMP/disk"
program <<'END2'
from presets import *

import shutil

FILES = ["config.json", "model.safetensors", "sub/config.json", "trainer_state.json"]
DONE = ("close trainer_state.json + all closed + quiet + lone", "close trainer_state.json + exited 0")
COMMIT = ".ckptfs-commit.json"
src = back + "/src/checkpoint-5"

one = Rank()
one.makedirs("src/checkpoint-5/sub")
for name in FILES:
	one.file("src/checkpoint-5/" + name, 40000)
one.exit()
was = committed("src/checkpoint-5", DONE, FILES)
archive = os.environ["TEST_TMP"] + "/archive"
members = ["checkpoint-5/" + name for name in [COMMIT, "trainer_state.json"] + FILES[:3]]
subprocess.run(["tar", "-C", back + "/src", "--xattrs", "-cf", archive, *members], check=True)
copytree = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2] + '/checkpoint-5')"

def copiers(to):
	yield "cp-r", ["cp", "-r", src, to]
	yield "cp-a", ["cp", "-a", src, to]
	yield "tar", ["tar", "-C", to, "-xf", archive]
	yield "tar-p", ["tar", "-C", to, "--xattrs", "-xpf", archive]
	yield "python", [sys.executable, "-c", copytree, src, to]
	if shutil.which("rsync"):
		yield "rsync-a", ["rsync", "-a", src, to]
		yield "rsync-X", ["rsync", "-aX", "--delay-updates", src, to]
		yield "rsync-i", ["rsync", "-a", "--inplace", src, to]

def as_user(uid, args):
	if uid:
		args = ["setpriv", "--reuid=%d" % uid, "--regid=%d" % uid, "--clear-groups", "--"] + args
	out = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
	assert out.returncode == 0, (args, out.stdout.decode())

made = []
for uid in 0, 1001:
	for name, _ in copiers(""):
		directory = "%s-%d" % (name, uid)
		os.mkdir(mnt + "/" + directory)
		os.chown(mnt + "/" + directory, uid, uid)
		as_user(uid, dict(copiers(mnt + "/" + directory))[name])
		made.append(directory)
generations = {was["generation"]}
for directory in made:
	own = committed(directory + "/checkpoint-5", DONE, FILES)
	assert own["generation"] not in generations, directory
	generations.add(own["generation"])
	assert os.stat(back + "/" + directory + "/checkpoint-5/" + COMMIT).st_uid == int(directory.split("-")[-1])
	assert not staging(back + "/" + directory) and os.listdir(back + "/" + directory) == ["checkpoint-5"]

# Once more over what was copied: a change to that, with a commit file of its own again.
for name in "cp-a", "tar-p":
	as_user(0, dict(copiers(mnt + "/" + name + "-0"))[name])
	again = committed(name + "-0/checkpoint-5", DONE + ("last close",), FILES)
	assert again["generation"] not in generations
	generations.add(again["generation"])

# tar is given its archive in two halves, and has got the file that ends a save when it waits for the second: as
# long as it lives nothing is committed, whatever time passes.
with open(archive, "rb") as file:
	content = file.read()
half = content.index(b"checkpoint-5/config.json") // 512 * 512
os.mkdir(mnt + "/halves")
tar = subprocess.Popen(["tar", "-b", "1", "-C", mnt + "/halves", "-xf", "-"], stdin=subprocess.PIPE)
tar.stdin.write(content[:half])
tar.stdin.flush()
wait(lambda: os.path.exists(mnt + "/halves/checkpoint-5/trainer_state.json"))
wait(lambda: state("halves/checkpoint-5").get("open_files") == 0)
clock = Rank(session=True)
clock.makedirs("clock/checkpoint-5")
for name in FILES[0], FILES[3]:
	clock.file("clock/checkpoint-5/" + name)
committed("clock/checkpoint-5", DONE[0])
open_for("halves/checkpoint-5", "since it is being copied", "hf-trainer")
tar.stdin.write(content[half:])
tar.stdin.close()
assert tar.wait(20) == 0
assert committed("halves/checkpoint-5", DONE, FILES)["sequence"] == 1
clock.exit()

# What a program gives that name, in whatever way, does not get it on the backing, and is seen by who made it.
os.mkdir(mnt + "/plain")
mine = mnt + "/plain/" + COMMIT
save(mine, b"{}")
assert read(mine) == b"{}"
os.chmod(mine, 0o600)
os.utime(mine, (1, 2))
assert os.stat(mine).st_mtime == 2 and os.listdir(mnt + "/plain") == os.listdir(back + "/plain") == []
fails(errno.EEXIST, os.link, mnt + "/src/checkpoint-5/config.json", mine)
os.unlink(mine)
assert not os.path.exists(mine)
fails(errno.EPERM, os.link, mnt + "/src/checkpoint-5/config.json", mine)
fails(errno.EPERM, os.symlink, "x", mine)
fails(errno.EPERM, os.mkdir, mine)
save(mnt + "/plain/file", b"[]")
os.rename(mnt + "/plain/file", mine)
assert read(mine) == b"[]" and os.listdir(mnt + "/plain") == os.listdir(back + "/plain") == []
fails(errno.EXDEV, os.rename, mine, mnt + "/plain/file")
os.rmdir(mnt + "/plain")

# That of a committed one is its own: a change of it makes a new one.
its = mnt + "/src/checkpoint-5/" + COMMIT
fails(errno.ENOENT, os.rename, its, mnt + "/elsewhere")
changes = [lambda: fails(errno.ENOENT, os.truncate, its, 5), lambda: save(its, b"{}"), lambda: os.unlink(its),
	lambda: save(its, b"x", flags=os.O_APPEND), lambda: (save(mnt + "/note", b"{}"), os.rename(mnt + "/note", its))]
for change in changes:
	change()
	ckptfs("commit", mnt + "/src/checkpoint-5")
	now = committed("src/checkpoint-5", DONE + ("asked", "last close"), FILES)
	assert json.loads(read(its)) == now
assert not failures(), failures()
END2
umount_ckptfs
