#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 240
# Files that are damaged or made to harm: `ckptfs tensors` runs nothing of them, stays below 64 MiB,
# and says of each what is wrong.

import json
import os
import pickle
import random
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/tensors"))
from forms import Call, Storage, dumps, metadata, named, tensor, torch_save, zip_of

CKPTFS = os.environ["CKPTFS"]
DIR = os.environ["TEST_TMP"]
LIMIT_KB = 64 << 10


def look(path):
    """The exit status, and the index. What this program has in memory counts as the child's, too:
    it must not be much."""
    process = subprocess.Popen(
        [CKPTFS, "tensors", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert usage.ru_maxrss < LIMIT_KB, (path, usage.ru_maxrss)
    assert os.WIFEXITED(status), (path, status)
    process.returncode = os.WEXITSTATUS(status)
    assert process.returncode in (0, 1), (path, process.stderr.read())
    return process.returncode, json.loads(out)


def refused(name, data, reason):
    path = os.path.join(DIR, name)
    with open(path, "wb") as file:
        file.write(data)
    status, index = look(path)
    reasons = [o["reason"] for o in index["opaque"]]
    assert status == 1 and not index["tensors"], (name, index)
    assert any(reason in r for r in reasons), (name, reason, reasons)


# --- pickles ---

refused("memo.pt", zip_of(b"\x80\x02Nr\xff\xff\xff\x7f."), "numbers more values")
refused("marks.pt", zip_of(b"(" * 4_000_000), "its pickle")
refused("dicts.pt", zip_of(b"}" * 3_000_000), "more than ckptfs takes")
refused("text.pt", zip_of(b"\x80\x02X\xff\xff\xff\xffabc."), "cut off")
refused("long.pt", zip_of(b"\x80\x02\x8b\xff\xff\xff\x7f."), "cut off")
refused("empty.pt", zip_of(b""), "cut off")
refused("stop.pt", zip_of(b"."), "empty stack")
refused("pop.pt", zip_of(b"R."), "empty stack")
refused("below_mark.pt", zip_of(b"N(a."), "empty stack")
refused("get.pt", zip_of(b"h\x07."), "not numbered")
refused("opcode.pt", zip_of(b"\xff."), "opcode")
refused("ext.pt", zip_of(b"\x82\x01."), "opcode")
refused("add.pt", zip_of(b"NNa."), "no container")
refused("class.pt", zip_of(b"NN\x93."), "no text")
refused("items.pt", zip_of(b"}(Nu."), "without a value")
refused("bare.pt", pickle.dumps({"a": 1}), "bare pickle")
refused("nothing.pt", b"12345678", "no zip file")
refused("other.zip", b"PK\x05\x06" + bytes(18), "no zip file")

# A list of lists of lists: 2^60 ways through it.
bomb = [[]]
for _ in range(60):
    bomb = [bomb, bomb]
torch_save({"bomb": bomb}, DIR + "/bomb.pt")
assert look(DIR + "/bomb.pt")[0] == 1
# It contains itself.
loop = {}
loop["loop"] = [loop]
torch_save(loop, DIR + "/loop.pt")
assert look(DIR + "/loop.pt")[0] == 1
# A million items.
refused("million.pt", zip_of(b"\x80\x02](" + b"J\x01\x02\x03\x04" * 1_000_000 + b"e."), "no tensor")

# What Python would run.
ran = os.path.join(DIR, "ran")
torch_save({"x": Call(os.system, "touch " + ran)}, DIR + "/run.pt")
look(DIR + "/run.pt")
os.mkdir(DIR + "/dcp")
with open(DIR + "/dcp/.metadata", "wb") as file:
    pickle.dump(Call(os.system, "touch " + ran), file)
status, index = look(DIR + "/dcp")
assert "no Metadata" in index["opaque"][0]["reason"], index
assert not os.path.exists(ran)

# --- tensors that are not what they say ---


def tensor_refused(name, root, reason, **how):
    path = os.path.join(DIR, name)
    torch_save({"t": root}, path, **how)
    _, index = look(path)
    assert index["opaque"][0]["name"] == "t", index
    assert reason in index["opaque"][0]["reason"], (name, index)


data = Storage("0", "FloatStorage", bytes(range(64)))
tensor_refused("beyond.pt", tensor(data, [17]), "beyond its storage")
tensor_refused("first.pt", tensor(data, [4], first=13), "beyond its storage")
tensor_refused("huge.pt", tensor(data, [1 << 40, 1 << 40]), "too large")
tensor_refused("strides.pt", tensor(data, [2, 3], stride=[1, 2]), "row-major")
tensor_refused("negative.pt", tensor(data, [-4]), "shape has a form")
tensor_refused("dims.pt", tensor(data, [1] * 65), "shape has a form")
tensor_refused("type.pt", tensor(Storage("0", "ByteStorage", b""), [0], first=-1), "form")

# --- .metadata ---

chunks = [((0,), (4,)), ((4,), (4,))]


def dcp(name, tensors, items, files, transforms=()):
    path = os.path.join(DIR, name)
    os.mkdir(path)
    with open(path + "/.metadata", "wb") as file:
        file.write(metadata(tensors, items, transforms))
    for file_name, content in files.items():
        with open(os.path.join(path, file_name), "wb") as file:
            file.write(content)
    return look(path)


def item(content):
    return zip_of(*dumps(tensor(Storage("0", "FloatStorage", content), [len(content) // 4])))


one, two = item(bytes(range(16))), item(bytes(range(16, 32)))
whole = {
    ("w", (0,)): ("__0_0.distcp", 0, len(one)),
    ("w", (4,)): ("__1_0.distcp", 0, len(two)),
}
files = {"__0_0.distcp": one, "__1_0.distcp": two}
status, index = dcp("whole", {"w": ((8,), chunks)}, whole, files)
assert status == 0 and index["tensors"][0]["state"] == "complete", index
got = b""
for piece in index["tensors"][0]["pieces"]:
    with open(os.path.join(DIR, "whole", piece["path"]), "rb") as file:
        file.seek(piece["at"])
        got += file.read(piece["bytes"])
assert got == bytes(range(32))


def hole(name, text, *args):
    status, index = dcp(name, *args)
    assert status == 1 and text in index["tensors"][0]["state"], index


tensors = {"w": ((8,), chunks)}
hole("file", "__1_0.distcp is missing", tensors, whole, {"__0_0.distcp": one})
hole("short", "__1_0.distcp is cut off", tensors, whole, {**files, "__1_0.distcp": two[:-9]})
hole(
    "chunk", "16 of 32 bytes are missing, first at index 4", {"w": ((8,), chunks[:1])}, whole, files
)
hole("twice", "overlap", {"w": ((8,), [((0,), (4,)), ((2,), (4,))])},
     {**whole, ("w", (2,)): ("__1_0.distcp", 0, len(two))}, files)  # fmt: skip
hole("bounds", "out of bounds", {"w": ((6,), chunks)}, whole, files)
hole("nowhere", "missing", tensors, {("w", (0,)): ("__0_0.distcp", 0, len(one))}, files)
hole("outside", "../x is missing", tensors, {**whole, ("w", (4,)): ("../x", 0, 999)}, files)
hole("item", "missing", tensors, whole, {**files, "__1_0.distcp": bytes(len(two))})

hole("large", "too large to be true", {"w": ((1 << 40, 1 << 40), [])}, {}, {})
# An empty chunk takes the place of no other.
empty = item(b"")
status, index = dcp(
    "empty_chunk",
    {"w": ((8,), [*chunks, ((2,), (0,))])},
    {**whole, ("w", (2,)): ("__2_0.distcp", 0, len(empty))},
    {**files, "__2_0.distcp": empty},
)
assert status == 0 and index["tensors"][0]["state"] == "complete", index
# Items that lie on one another may make a reader read the same bytes again and again, but not long.
many = {f"w{n:05}": ((4,), [((0,), (4,))]) for n in range(5000)}
place = ("__0_0.distcp", 0, len(one))
status, index = dcp(
    "one_item", many, dict.fromkeys([(n, (0,)) for n in many], place), {place[0]: one}
)
assert status == 0 and len(index["tensors"]) == 5000, index
# What is compressed is there, but nothing in it can be described.
status, index = dcp("zstd", tensors, whole, files, ["zstd"])
assert status == 0 and index["tensors"][0]["state"] == "opaque", index
assert "compressed" in index["opaque"][0]["reason"] and len(index["opaque"]) == 1, index
status, index = dcp("zstd_cut", tensors, whole, {**files, "__1_0.distcp": two[:-9]}, ["zstd"])
assert status == 1 and "is cut off" in index["tensors"][0]["state"], index

# --- ZeRO ---

# Ranks that cannot be, and files that are none, for each of many model-parallel ranks.
os.mkdir(DIR + "/zero")
for rank in 1, 4294967295, 1 << 70:
    with open(f"{DIR}/zero/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", "wb") as file:
        file.write(b"no zip")
for mp in range(1, 5000):
    with open(f"{DIR}/zero/zero_pp_rank_0_mp_rank_{mp}_optim_states.pt", "wb"):
        pass
status, index = look(DIR + "/zero")
reasons = [o["reason"] for o in index["opaque"]]
assert status == 1 and reasons.count("the optimizer states of rank 0 are missing") == 1, reasons
assert len(reasons) == 5003 and not index["tensors"], len(reasons)

# --- safetensors ---


def safe(header, size=0):
    text = json.dumps(header).encode() if isinstance(header, dict) else header
    return struct.pack("<Q", len(text)) + text + bytes(size)


def entry(begin, end, shape=(4,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


refused("a.safetensors", struct.pack("<Q", 1 << 60), "cut off")
refused("b.safetensors", safe(b"[]"), "no JSON object")
refused("c.safetensors", safe(b'{"a": 1, "a": 1}'), "no JSON object")
refused("d.safetensors", safe({"t": entry(0, 16)}, 15), "beyond the end")
refused("e.safetensors", safe({"t": entry(0, 12)}, 16), "does not fit its shape")
refused("f.safetensors", safe({"t": entry(0, 16, dtype="F99")}, 16), "type")
refused("g.safetensors", safe({"t": entry(0, 16, (1 << 62, 1 << 62))}, 16), "does not fit")
refused("h.safetensors", safe({"t": entry(16, 0)}, 16), "does not fit")
refused("i.safetensors", safe({"t": {}}), "")
refused("j.safetensors", b"", "cut off")

# --- cut anywhere, and changed anywhere ---

torch_save({"a": tensor(data, [4, 4]), "step": 3, "list": [1, "two", None]}, DIR + "/good.pt")
with open(DIR + "/good.pt", "rb") as file:
    good = file.read()
draw = random.Random(1)
for n in range(0, len(good), 7):
    with open(DIR + "/cut.pt", "wb") as file:
        file.write(good[:n])
    status, index = look(DIR + "/cut.pt")
    assert status == 1 and index["opaque"], (n, index)
with open(DIR + "/whole/.metadata", "rb") as file:
    good_metadata = file.read()
for n in range(300):
    changed = bytearray(good if n % 2 else good_metadata)
    for _ in range(draw.randrange(1, 4)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    name = "/cut.pt" if n % 2 else "/whole/.metadata"
    with open(DIR + name, "wb") as file:
        file.write(changed)
    look(DIR + name)

assert named("torch", "Size")
