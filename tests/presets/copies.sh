#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checkpoints that processes without a rank make, by cp, tar and rsync: complete when these have ended well and it is
# quiet; and what those do that are killed, or fail.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
needs tar
where_quiet 1
program <<'END2'
from presets import *

import shutil

DONE = "all closed + exited 0 + quiet + lone"
src = os.environ["TEST_TMP"] + "/src"

def make(unit, files):
	for i, name in enumerate(files):
		os.makedirs(os.path.dirname("%s/%s/%s" % (src, unit, name)), exist_ok=True)
		save("%s/%s/%s" % (src, unit, name), safetensors(i, 30000) if name.endswith(".safetensors") else data(i, 30000))
	os.utime(src + "/" + unit, (10 ** 9, 10 ** 9)) # rsync takes what differs by less than a second for the same

DCP = [".metadata", "__0_0.distcp", "__1_0.distcp"]
HF = ["config.json", "model.safetensors", "optimizer.pt", "rng_state_0.pth", "rng_state_1.pth", "trainer_state.json",
	"global_step5/zero_pp_rank_0_mp_rank_00_optim_states.pt"]
make("step-10", DCP)
make("out", DCP)
make("checkpoint-5", HF)
make("global_step10", ["mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"])
make("iter_0000010", DCP + ["metadata.json"])
make("plain", ["a.txt", "sub/b.txt"])
units = ["step-10", "out", "checkpoint-5", "global_step10", "iter_0000010"]

def run(*args):
	out = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
	assert out.returncode == 0, out.stdout.decode()

def same(directory):
	for unit in units:
		committed(directory + "/" + unit, (DONE, "close trainer_state.json + every rank rng_state_{rank}.pth"),
			tree(src + "/" + unit), 1)
	for unit in units + ["plain"]:
		assert tree(mnt + "/" + directory + "/" + unit) == tree(src + "/" + unit)
		assert os.stat(mnt + "/" + directory + "/" + unit).st_mtime_ns == os.stat(src + "/" + unit).st_mtime_ns, unit

os.mkdir(mnt + "/cp")
run("cp", "-r", "--preserve=timestamps,mode", *[src + "/" + unit for unit in units + ["plain"]], mnt + "/cp")
assert tree(back + "/cp/plain") == tree(src + "/plain")
os.mkdir(mnt + "/tar")
run("tar", "--format=posix", "-C", src, "-cf", src + ".tar", *units, "plain")
run("tar", "-C", mnt + "/tar", "-xf", src + ".tar")
assert tree(back + "/tar/plain") == tree(src + "/plain")
if shutil.which("rsync"):
	os.mkdir(mnt + "/rsync")
	run("rsync", "-a", *[src + "/" + unit for unit in units + ["plain"]], mnt + "/rsync")
	same("rsync")
same("cp")
same("tar")

# As rsync names files that it has not all of yet, or keeps aside until it has all: its renames end no save.
one = Rank()
one.makedirs("rs/step-10")
for i, name in enumerate(DCP):
	temp = "rs/step-10/%s.Ab3dEf" % (name if name.startswith(".") else "." + name)
	one.exclusive(temp, 30000, i)
	one.rename(temp, "rs/step-10/" + name)
	open_for("rs/step-10", "the exit of every writer with status 0", "torchtitan")
one.mkdir("rs/step-10/.~tmp~")
one.exclusive("rs/step-10/.~tmp~/.metadata", 30000, 7)
one.rename("rs/step-10/.~tmp~/.metadata", "rs/step-10/.metadata")
one.rmdir("rs/step-10/.~tmp~")
open_for("rs/step-10", "the exit of every writer with status 0", "torchtitan")
one.exit()
committed("rs/step-10", DONE, DCP, 1)

# The copy of a committed unit has a commit file of its own, not that which came along.
run("cp", "-r", back + "/cp/step-10", mnt + "/again")
was = committed("again", DONE, DCP, 1)
assert was["generation"] != commit_file("cp/step-10")["generation"]
run("tar", "-C", back + "/cp", "-cf", src + "2.tar", "step-10")
os.mkdir(mnt + "/tar2")
run("tar", "-C", mnt + "/tar2", "-xf", src + "2.tar")
committed("tar2/step-10", DONE, DCP, 1)

# While the process lives, it may go on.
one = Rank()
one.makedirs("later/step-10")
for name in DCP:
	one.file("later/step-10/" + name)
one.mkdir("later/other")
save(mnt + "/later/note.txt", b"x")
ordinary("later/note.txt")
open_for("later/step-10", "the exit of every writer with status 0", "torchtitan")
one.exit()
committed("later/step-10", DONE, DCP, 1)

# One that is killed, or fails, has not copied all.
for i, (end, why) in enumerate(((lambda one: one.kill(), "killed by signal 9"), (lambda one: one.exit(1), "exit status 1"))):
	one = Rank()
	one.makedirs("dead/step-%d" % i)
	one.file("dead/step-%d/__0_0.distcp" % i)
	end(one)
	failed("dead/step-%d" % i, why)

# Several copy one: that each has ended well does not tell that all have, nor do files that end a save; silence does.
one, two = Rank(), Rank()
one.makedirs("parts/epoch=1.ckpt")
one.file("parts/epoch=1.ckpt/__0_0.distcp")
one.file("parts/epoch=1.ckpt/meta.pt")
open_for("parts/epoch=1.ckpt", "a while without writes", "lightning")
one.exit()
two.file("parts/epoch=1.ckpt/__1_0.distcp")
open_for("parts/epoch=1.ckpt", "a while without writes", "lightning")
two.file("parts/epoch=1.ckpt/.metadata")
two.exit()
committed("parts/epoch=1.ckpt", "close meta.pt", DCP + ["meta.pt"])

# Who is of another job waits until those of the one have ended.
one, other = Rank(), Rank(session=True)
one.makedirs("parts/step-10")
one.file("parts/step-10/__0_0.distcp")
other.fails(errno.EBUSY, "file", "parts/step-10/__1_0.distcp")
open_for("parts/step-10", "the exit of every writer with status 0")
one.exit()
committed("parts/step-10", DONE, ["__0_0.distcp"])
other.file("parts/step-10/__1_0.distcp")
other.file("parts/step-10/.metadata")
committed("parts/step-10", "last close", DCP)
other.exit()

# A file that makes no unit of its directory, made so that nothing may be there before; two at once.
one, two = Rank(), Rank()
one.makedirs("dirs/step-77")
two.tell("exclusive", "dirs/step-77/notes.txt")
one.exclusive("dirs/step-77/README", 100, 1)
assert two.answer() is None
ordinary("dirs/step-77/README")
ordinary("dirs/step-77/notes.txt")
one.makedirs("dirs/step-78/deep")
one.symlink("nowhere", "dirs/step-78/link")
assert os.readlink(back + "/dirs/step-78/link") == "nowhere"
one.exit()
two.exit()
END2
