#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# `ckptfs export` of checkpoints that real packages wrote (tests/tensors/trees.tar.xz): each tensor
# has the bytes that the package itself read. And what is refused, cut short, taken up again.

import collections
import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile

HERE = os.path.join(os.environ["SRC"], "tests/tensors")
sys.path.insert(0, HERE)
from forms import Storage, tensor, torch_save

CKPTFS = os.environ["CKPTFS"]
os.chdir(os.environ["TEST_TMP"])


def export(*args):
    done = subprocess.run([CKPTFS, "export", *args], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def read(directory):
    """{name: (dtype, shape, sha256)} of all files, as safetensors's own format says."""
    found = {}
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(directory, name), "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header, data = json.loads(file.read(size)), file.read()
        assert size % 8 == 0 and header.pop("__metadata__") == {"format": "pt"}
        end = 0
        for tensor_name, entry in sorted(header.items(), key=lambda kv: kv[1]["data_offsets"]):
            begin, next_end = entry["data_offsets"]
            assert begin == end, (name, tensor_name)
            end = next_end
            digest = hashlib.sha256(data[begin:end]).hexdigest()
            assert tensor_name not in found
            found[tensor_name] = (entry["dtype"], entry["shape"], digest)
        assert end == len(data), name
    return found


def listed(directory):
    with open(directory + "/model.safetensors.index.json", encoding="utf-8") as file:
        return json.load(file)


with tarfile.open(HERE + "/trees.tar.xz") as archive:
    archive.extractall(".")
kinds = sorted(name for name in os.listdir(".") if os.path.isdir(name))
nr_equal = 0
for kind in kinds:
    with open(kind + "/expected.json", encoding="utf-8") as file:
        expected = collections.defaultdict(set)
        for e in json.load(file):
            expected[e["name"]].add((e["dtype"], tuple(e["shape"]), e["sha256"]))
    status, out, err = export("--partial", kind + "/tree/.view/part=all", kind + "/out")
    if status:
        assert "no tensor that the view" in err, (kind, err)
        continue
    for name, (dtype, shape, digest) in read(kind + "/out").items():
        assert (dtype, tuple(shape), digest) in expected[name], (kind, name)
        nr_equal += 1
assert nr_equal > 150, nr_equal

# ZeRO's fp32 parameters by their own names, rounded, in files of a bounded size.
status, out, err = export("zero_2/tree/.view/part=master,dtype=bf16,max=64", "bf16")
assert status == 0, err
got, index = read("bf16"), listed("bf16")
assert {dtype for dtype, _, _ in got.values()} == {"BF16"}, got
assert set(index["weight_map"]) == set(got) and "to nearest" in index["metadata"]["rounded_to"]
assert all(os.path.exists("bf16/" + name) for name in index["weight_map"].values())
assert len(set(index["weight_map"].values())) > 2, index
masters = {n[5:] for n in read("zero_2/out") if n.startswith("fp32.")}
assert masters == set(got), (masters, set(got))

# Words: a part, names, what they begin with; what loaders look for comes along.
data = Storage("0", "FloatStorage", bytes(range(64)))
os.mkdir("unit")
state = {"model": {"a": tensor(data, [4, 2]), "b": tensor(data, [4], 8)}, "optim": {}}
state["optim"]["exp_avg"] = tensor(data, [2], 14)
torch_save(state, "unit/all.pt")
with open("unit/config.json", "w", encoding="utf-8") as file:
    file.write("{}")
for spec, names in (
    ("safetensors", ["model.a", "model.b"]),
    ("strip=model.,safetensors", ["a", "b"]),
    ("strip=model.,only=a", ["a"]),
    ("strip=model.,only=x,only=[b-c]", ["b"]),
    ("part=optimizer", ["optim.exp_avg"]),
    ("part=all,scope=all.pt", []),
):
    status, out, err = export("unit/.view/" + spec, "out")
    assert status == (0 if names else 1), (spec, err)
    if names:
        assert sorted(read("out")) == names and os.path.exists("out/config.json"), spec
        shutil.rmtree("out")
os.mkdir("beside")
for name in ("config.json", "tokenizer.json", "other.json"):
    with open("beside/" + name, "w", encoding="utf-8") as file:
        file.write("[]")
status, out, err = export("--json", "--assets", "beside", "unit", "out")
assert status == 0 and json.loads(out) == {
    "ok": True,
    "files": 1,
    "bytes": os.path.getsize("out/model.safetensors"),
    "tensors": 2,
}, out
assert sorted(os.listdir("out")) == ["config.json", "model.safetensors", "tokenizer.json"]

# Of tied tensors one is shown, whichever of them is asked for.
torch_save({"a": tensor(data, [4, 2]), "b": tensor(data, [4, 2])}, "tied.pt")
os.mkdir("tied")
os.rename("tied.pt", "tied/all.pt")
for spec, names in (("safetensors", ["a"]), ("only=b", ["b"]), ("only=a", ["a"])):
    assert export("tied/.view/" + spec, "one")[0] == 0 and sorted(read("one")) == names, spec
    shutil.rmtree("one")

# What a header cannot say; and what a link leads to.
wide = Storage("0", "ComplexDoubleStorage", bytes(64))
os.mkdir("odd")
torch_save(
    {"__metadata__": tensor(data, [2]), "c": tensor(wide, [4]), "w": tensor(data, [1])}, "odd/a.pt"
)
status, out, err = export("odd", "one")
assert status == 1 and "keeps that name" in err and "no such type" in err, err
os.symlink("/etc/hostname", "odd/config.json")
status, out, err = export("odd/.view/only=w", "one")
assert status == 1 and not os.path.exists("one"), err
shutil.rmtree(".one.part")
os.makedirs("x/.view/y")
torch_save({"w": tensor(data, [1])}, "x/.view/y/a.pt")
assert export("x/.view/y/.view/safetensors", "one")[0] == 0
shutil.rmtree("one")

# What is refused: nothing is written.
before = sorted(os.listdir("."))
for args, text in (
    (("unit", "out"), "out is there already"),
    (("unit/.view/prat=model", "new"), "Is 'part' meant?"),
    (("nowhere", "new"), "cannot be listed"),
    (("unit/.view/only=z", "new"), "no tensor that the view 'only=z' can show"),
    (("unit", "no/such/new"), "No such file or directory"),
    (("unit",), "give a checkpoint"),
):
    status, out, err = export(*args)
    assert status in (1, 2) and text in err, (args, err)
    assert sorted(os.listdir(".")) == before, args
os.mkdir("hole")
torch_save(state, "hole/one.pt")
state["model"]["c"] = tensor(data, [1], 12)
torch_save(state, "hole/two.pt")
status, out, err = export("hole", "new")
assert status == 1 and "choose one by scope=" in err and "2 cannot, see above" in err, err
status, out, err = export("hole/.view/scope=two.pt", "new")
assert status == 0 and sorted(read("new")) == ["model.a", "model.b", "model.c"], err

# Cut short at any point, the same command goes on: what is whole is not written again.
many = {f"weight_{n}" + "_of_a_layer" * 10: tensor(data, [4], n) for n in range(8)}
os.mkdir("many")
torch_save(many, "many/all.pt")
assert export("many/.view/max=16", "all")[0] == 0
os.mkdir(".again.part")
held = os.open(".again.part", os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
status, out, err = export("many/.view/max=16", "again")
assert status == 1 and "another export to again is running" in err, err
os.close(held)
limit = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", CKPTFS, "export", "many/.view/max=16", "again"]
assert subprocess.run(limit, capture_output=True).returncode != 0
assert not os.path.exists("again")
# The files that were written before the failure are not of what is there now. (The last one, the
# index, is larger than the others.)
limit[2] = 'ulimit -f 2; exec "$@"'
assert subprocess.run(limit, capture_output=True).returncode != 0
assert len(os.listdir(".again.part")) > 8
with open("many/all.pt", "r+b") as file:
    whole = file.read()
    file.seek(whole.index(data.data))
    file.write(bytes(reversed(data.data)))
assert export("many/.view/max=16", "new_all")[0] == 0 and read("new_all") != read("all")
status, out, err = export("many/.view/max=16", "again")
assert status == 0 and read("again") == read("new_all"), err
assert sorted(os.listdir("again")) == sorted(os.listdir("all"))
# So it is with a map and config.json that have changed since.
limit[-2:] = ["many/.view/max=16,map=m", "mapped"]
for to in ("x{n}", "y{n}"):
    with open("m.json", "w", encoding="utf-8") as file:
        rule = {"from": "weight_{n}" + "_of_a_layer" * 10, "to": to + "_of_a_layer" * 10}
        json.dump({"tensors": [rule]}, file)
    if to == "x{n}":
        assert subprocess.run(limit, capture_output=True).returncode != 0
        assert len(os.listdir(".mapped.part")) > 8
status, out, err = export("many/.view/max=16,map=m", "mapped")
assert status == 0 and all(name.startswith("y{n}"[:1]) for name in read("mapped")), err
assert not [name for name in os.listdir(".") if name.endswith(".part")]

# What is wrong with assets is said before anything is written; no link in them is followed.
status, out, err = export("--assets", "nowhere", "many", "fresh")
assert status == 1 and "directory of assets cannot be opened" in err, err
status, out, err = export("many/.view/assets=nowhere", "fresh")
assert status == 1 and "directory of assets cannot be opened" in err, err
os.mkdir("many/tok")
os.symlink("/etc/hostname", "many/tok/tokenizer.json")
status, out, err = export("many/.view/assets=tok", "fresh")
assert status == 1 and not os.path.exists("fresh"), err
os.remove("many/tok/tokenizer.json")
os.mkfifo("many/tok/tokenizer.json")
status, out, err = export("many/.view/assets=tok", "fresh")
assert status == 1 and not os.path.exists("fresh"), err
os.remove("many/tok/tokenizer.json")
for name in ("vocab.json", "merges.txt"):
    with open("many/tok/" + name, "w", encoding="utf-8") as file:
        file.write("{}")
limit = [
    "sh",
    "-c",
    'ulimit -f 1; exec "$@"',
    "sh",
    CKPTFS,
    "export",
    "many/.view/assets=tok",
    "fresh",
]
assert subprocess.run(limit, capture_output=True).returncode != 0
assert os.path.exists(".fresh.part/vocab.json")
os.remove("many/tok/vocab.json")
status, out, err = export("many/.view/assets=tok", "fresh")
assert status == 0 and sorted(os.listdir("fresh")) == ["merges.txt", "model.safetensors"], err
