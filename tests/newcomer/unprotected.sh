#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What is accepted and not protected is said once for each directory, in status and log: a save under a name that no rule
# claims, and files of one job that no rule puts together. What is protected, or is no checkpoint, is not spoken of.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/presets/presets.bash"

needs_fuse
where_quiet 3600
program <<'END2'
import io
import zipfile
from presets import *

def notices():
	return status()["notices"]

def kinds():
	return sorted((n["op"], n["path"]) for n in notices())

def zipped(entry):
	out = io.BytesIO()
	with zipfile.ZipFile(out, "w") as z:
		z.writestr(entry, b"x" * 50000)
	return out.getvalue()

def put(path, content):
	with open(mnt + "/" + path, "wb") as f:
		f.write(content)

# The names of programs that are no checkpoints, and their content.
for name, content in ("notes.txt", b"hello"), ("data.bin", b"\1" * 300000), ("a.zip", zipped("report.txt")), ("log.json", b"{}"):
	put(name, content)
assert not notices(), notices()

# A save that no rule claims, of each kind; each directory once.
for directory, content in ("zip", zipped("m/data.pkl")), ("npz", zipped("w.npy")), ("h5", b"\x89HDF\r\n\x1a\n" + bytes(400000)), \
		("st", (40).to_bytes(8, "little") + b'{"a":{"dtype":"U8"}}' + bytes(90000)), ("pkl", b"\x80\4\x95" + bytes(70)):
	os.mkdir(mnt + "/" + directory)
	put(directory + "/m.dat", content)
	put(directory + "/n.dat", content)
	put(directory + "/.hidden", content)
	put(directory + "/.rsynced.dat.Abc123", content)
assert kinds() == [("unclaimed", d) for d in ("h5", "npz", "pkl", "st", "zip")], kinds()
said = [n["message"] for n in notices() if n["path"] == "zip"][0]
assert said.startswith("'zip/m.dat' looks like a checkpoint (torch.save), but no rule claims this name"), said
assert "add a rule" in said
code, told = ckptfs("status", mnt)
assert code == 0 and "unprotected  5" in told and said in told, told

# Nor one that a program writes under a temporary name: when it gets its own.
for name, content, final in ("notes.txt.tmp", b"hello", "notes.txt"), ("m.dat.tmp", zipped("m/data.pkl"), "other.tmp"):
	put(name, content)
	os.rename(mnt + "/" + name, mnt + "/" + final)
assert len(notices()) == 5, kinds()
for number in range(2):
	os.makedirs(mnt + "/moved", exist_ok=True)
	put("moved/m.dat.tmp", zipped("m/data.pkl"))
	os.rename(mnt + "/moved/m.dat.tmp", mnt + "/moved/m.dat")
	assert ("unclaimed", "moved") in kinds() and len(notices()) == 6, kinds()
assert [n["message"] for n in notices() if n["path"] == "moved"][0].startswith("'moved/m.dat' looks like a checkpoint (torch.save)")
# But a temporary name of a rule makes it whole, with a digest.
os.mkdir(mnt + "/whole")
put("whole/.tmpAbc123", zipped("m/data.pkl"))
os.rename(mnt + "/whole/.tmpAbc123", mnt + "/whole/m.dat")
published()
verify(back + "/whole/m.dat")
code, told = ckptfs("why", mnt + "/whole/m.dat")
assert code == 0 and told.startswith("whole/m.dat: committed"), told
assert len(notices()) == 6, kinds()

# The commonest names of Hugging Face are claimed: whole or not there, and with a digest.
put("pytorch_model.bin", zipped("m/data.pkl"))
published()
verify(back + "/pytorch_model.bin")
writer = Rank(session=True)
writer.create("adapter_model.bin")
writer.write("adapter_model.bin", 1000, 1)
writer.kill()
wait(failures)
assert not os.path.exists(back + "/adapter_model.bin")
assert len(notices()) == 6, kinds()

# One process saves a layout of its own.
os.mkdir(mnt + "/mine")
writer = Rank(session=True)
for name in "weights.safetensors", "opt.pt":
	writer.file("mine/" + name, 30000)
	published()
writer.file("mine/more.pth", 30000)
published()
assert [n["message"] for n in notices() if n["op"] == "layout"] == ["'weights.safetensors' and 'opt.pt' were saved into 'mine' by one "
	"job, and no rule says that they belong together. Each is whole, but a crash can leave a new one beside an old one. "
	"Nothing was refused. If they are one checkpoint, add a rule for its directory: ckptfs-rules(5)"], notices()

# A series of checkpoints, and the best and the last of them, are no such thing.
os.mkdir(mnt + "/run")
for name in "step-1.pt", "step-20.pt", "best.pt", "last.pt":
	writer.file("run/" + name, 30000)
	published()
# Nor are they under the temporary names that the program gives them first, whether these were published or not.
os.mkdir(mnt + "/again")
for name in "run/step-0.pt", "run/step-1.pt", "again/model.pt", "again/model.pt":
	for early in True, False:
		writer.create(name + ".tmp")
		writer.write(name + ".tmp", 30000, 1)
		if not early:
			writer.close(name + ".tmp")
			published()
		writer.rename(name + ".tmp", name)
		if early:
			writer.close(name + ".tmp")
			published()
assert len(notices()) == 7, notices()
writer.exit()

# Two ranks, each with a file of its own.
with Job(2) as job:
	job[0].mkdir("ranks")
	for rank in job:
		rank.file("ranks/rank%d.pt" % rank.rank, 30000)
		published()
assert ("layout", "ranks") in kinds(), kinds()
END2
expect_ok "$CKPTFS" umount "$MNT"
