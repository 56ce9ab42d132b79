#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What the commit file tells of tensors that were captured: their shards, and where these lie; but not of bytes that were
# written over or cut off. A change to the checkpoint keeps what it does not touch.

. "${SRC:?}/tests/lib.sh"
. "$SRC/tests/capture/capture.bash"

needs_fuse
mount_ckptfs -o host_cache_size=64M
program <<'END'
from capture import *

def bad(*shard):
	fails(errno.EINVAL, s.register_shards, {99: ("bad", 16, "F32") + shard})
def commit(name):
	assert ckptfs("commit", mnt + "/" + name)[0] == 0
	wait_for(mnt + "/" + name)
	assert ckptfs("verify", mnt + "/" + name)[0] == 0
	lines = listed(name).get("tensors")
	digests[name] = [line.pop("xxh3", None) for line in lines or []]
	return lines
def listed(name):
	with open(back + "/" + name + "/.ckptfs-commit.json") as f:
		return json.load(f)
digests = {}
def shard(name, path, at, size, shape, offset, length, dtype="F32", **more):
	return dict(name=name, dtype=dtype, shape=shape, offset=offset, length=length, path=path, at=at, bytes=size, **more)
def storage(name, path, at, size, **more):
	return dict(name=name, kind="storage", dtype="U8", path=path, at=at, bytes=size, **more)

s = Session(arena=4 * MB)
bad(TENSOR, (4, 4), (0, 1), (4, 4))
bad(TENSOR, (1 << 63,), (0,), (4,))
for dtype in "F 32", "F\xe9", "F" * 16:
	fails(errno.EINVAL, s.register_shards, {99: ("bad", 16, dtype, TENSOR, (4,), (0,), (4,))})
bad(TENSOR, (4,), (1 << 63,), (1 << 63,))
bad(TENSOR, (4,), (0,), (3,)) # 12 bytes, not 16
s.register_shards({
	1: ("w", 2 * MB, "F32", TENSOR, (1024, 1024), (512, 0), (512, 1024)),
	2: ("w", 2 * MB, "F32", TENSOR, (1024, 1024), (0, 0), (512, 1024)),
	3: ("opt\x01\xe9\udcff", 4, "BF16", TENSOR, (2,), (0,), (2,)),
	4: ("args", 100, "U8", OBJECT, (), (), ()),
	5: ("s", 5000, "U8", STORAGE, (), (), ()),
	6: ("v", 4, "BF16", TENSOR, (2,), (0,), (2,))})
w1, w2, small, args, raw = data(1, 2 * MB), data(2, 2 * MB), b"abcd", data(4, 100), data(5, 5000)

os.mkdir(mnt + "/step-1")
with open(mnt + "/step-1/__0_0.distcp", "wb", 0) as f, open(os.fsencode(mnt) + b"/step-1/__1_\xff.tmp", "wb", 0) as g:
	f.write(b"header")
	s.write(f, (1, 4096, 0, MB, w1), (3, 6, 0, 4, small), (1, 4096 + MB, MB, MB, w1)) # two pieces are one
	s.write(g, (2, 0, 0, 2 * MB, w2), (4, 2 * MB, 0, 100, args))
	s.capture()
	os.rename(os.fsencode(mnt) + b"/step-1/__1_\xff.tmp", os.fsencode(mnt) + b"/step-1/__1_\xff.distcp")
	f.write(b"") # nothing of what is there
with open(mnt + "/step-1/empty", "wb"):
	pass
w_0 = dict(name="w", dtype="F32", shape=[1024, 1024], offset=[0, 0], length=[512, 1024], path_hex=b"__1_\xff.distcp".hex(), at=0, bytes=2 * MB)
w_512 = shard("w", "__0_0.distcp", 4096, 2 * MB, [1024, 1024], [512, 0], [512, 1024])
args_at = dict(name="args", kind="object", dtype="U8", path_hex=b"__1_\xff.distcp".hex(), at=2 * MB, bytes=100)
opt = dict(name_hex="opt\x01\xe9\udcff".encode(errors="surrogateescape").hex(), dtype="BF16", shape=[2], offset=[0], length=[2], path="__0_0.distcp", at=6, bytes=4)
got = commit("step-1")
assert got == [args_at, opt, w_0, w_512], got
assert read(back + "/step-1/__0_0.distcp")[4096:] == w1

# What one call has written has a digest: that of a file with the same bytes.
assert len(digests["step-1"]) == 4 and digests["step-1"][3] is None, digests
os.mkdir(mnt + "/same")
for nr, content in enumerate((args, small, w2)):
	with open(mnt + "/same/__%d_0.distcp" % nr, "wb", 0) as f:
		f.write(content)
commit("same")
assert [f["xxh3"] for f in listed("same")["files"]] == digests["step-1"][:3], digests

# The index puts the shards of one tensor together.
status, index = ckptfs("tensors", "--json", back + "/step-1")
found = {t["name"]: t for t in json.loads(index)["tensors"]}
assert status == 0 and len(found) == 2, (status, index)
assert found["w"]["shape"] == [1024, 1024] and found["w"]["state"] == "complete", found["w"]
assert [(p["at"], p["bytes"], p["offset"]) for p in found["w"]["pieces"]] == [(0, 2 * MB, [0, 0]), (4096, 2 * MB, [512, 0])]

small_one = next(t for n, t in found.items() if n != "w")
assert small_one["xxh3"] == digests["step-1"][1] and "xxh3" not in found["w"], found

# A whole tensor in each of two files is not one tensor twice: nobody says that these are replicas.
os.mkdir(mnt + "/two")
for nr in range(2):
	with open(mnt + "/two/__%d_0.distcp" % nr, "wb", 0) as f:
		s.write(f, (6, 0, 0, 4, b"abcd" if nr else b"efgh"))
		s.capture()
commit("two")
status, index = ckptfs("tensors", "--json", back + "/two")
both = json.loads(index)["tensors"]
assert [(t["scope"], t["pieces"][0]["path"]) for t in both] == [("__%d_0.distcp" % n,) * 2 for n in (0, 1)], both
assert [t["xxh3"] for t in both] == digests["two"] and len(set(digests["two"])) == 2, both

# A file of it is changed, another replaced, the third stays.
with open(mnt + "/step-1/__0_0.distcp", "r+b", 0) as f:
	os.pwrite(f.fileno(), b"X", 0)
got = commit("step-1")
assert read(back + "/step-1/__0_0.distcp")[:1] == b"X"
assert got == [args_at, w_0], got

# Written over, cut, punched, and captured anew: what was there is there no more.
os.mkdir(mnt + "/step-2")
with open(mnt + "/step-2/__0_0.distcp", "wb", 0) as f:
	for i in range(8):
		s.write(f, (5, i * 5000, 0, 5000, raw))
	s.capture()
	os.pwrite(f.fileno(), b"x", 5000)	      # the second
	os.pwrite(f.fileno(), b"x" * 2, 14999)	      # the third and the fourth
	s.write(f, (5, 20000, 1000, 100, raw))	      # the fifth
	s.capture()
	os.ftruncate(f.fileno(), 39999)		      # the eighth
	subprocess.run(["fallocate", "-p", "-o", "30000", "-l", "10", f.name], check=True) # the seventh
	os.pwrite(f.fileno(), b"x" * 10, 50000)	      # none
got = commit("step-2")
want = [storage("s", "__0_0.distcp", 0, 5000), storage("s", "__0_0.distcp", 20000, 100, **{"from": 1000}), storage("s", "__0_0.distcp", 25000, 5000)]
assert got == want, got

# Closed, durable, and opened once more for what comes behind.
os.mkdir(mnt + "/step-3")
with open(mnt + "/step-3/__0_0.distcp", "wb", 0) as f:
	s.write(f, (5, 0, 0, 5000, raw))
	s.capture()
wait_for_file = lambda: ckptfs("wait", "--state", "durable", "--timeout", "30", mnt + "/step-3/__0_0.distcp")
assert wait_for_file()[0] == 0
with open(mnt + "/other.pt", "wb", 0) as f: # the cache has other things to keep
	for i in range(100):
		f.write(data(i, MB))
wait_for(mnt + "/other.pt")
with open(mnt + "/step-3/__0_0.distcp", "r+b", 0) as f:
	f.seek(0, 2)
	f.write(b"tail")
got = commit("step-3")
assert got == [storage("s", "__0_0.distcp", 0, 5000)], got
assert read(back + "/step-3/__0_0.distcp") == raw + b"tail"

# Nothing captured: nothing told.
os.mkdir(mnt + "/step-4")
with open(mnt + "/step-4/__0_0.distcp", "wb", 0) as f:
	f.write(b"4")
assert commit("step-4") is None
END
umount_ckptfs
