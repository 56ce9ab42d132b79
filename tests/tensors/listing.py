#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# What `ckptfs tensors` says of checkpoints of several forms: names, scopes, tied weights, holes,
# and what is there more than once.

import json
import os
import pickle
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/tensors"))
from forms import Call, Storage, function, instance, named, safetensors, tensor, torch_save

CKPTFS = os.environ["CKPTFS"]
os.chdir(os.environ["TEST_TMP"])


def run(*args):
    done = subprocess.run([CKPTFS, "tensors", *args], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def index(path, *options):
    status, out, err = run("--json", *options, path)
    assert status in (0, 1), err
    return json.loads(out)


def names(path):
    return [(t.get("scope"), t["name"]) for t in index(path)["tensors"]]


# A file of torch.save: tied weights, a view, numbers as keys.
weight = Storage("0", "FloatStorage", bytes(range(64)))
tied = tensor(weight, [4, 4])
state = {"model": {"a": tied, "b": tied}, "optimizer": {0: {"exp_avg": tensor(weight, [2], 8)}}}
torch_save(state, "one.pt")
status, out, _ = run("one.pt")
assert status == 0 and out.endswith("3 tensors, 72 B: complete\n"), out
assert re.search(r"F32 +\[4, 4\] +64 B +1 +model +model.b \(the bytes of model.a\)", out), out
assert re.search(r"F32 +\[2\] +8 B +1 +optimizer +optimizer.0.exp_avg", out), out
found = {t["name"]: t for t in index("one.pt")["tensors"]}
assert found["model.b"]["alias"] == "model.a" and "alias" not in found["model.a"]
view, whole = (found[n]["pieces"][0] for n in ("optimizer.0.exp_avg", "model.a"))
assert view["at"] == whole["at"] + 32 and view["bytes"] == 8 and whole["bytes"] == 64
assert index("one.pt", "--digest")["tensors"][0]["xxh3"]

# Two files that know nothing of each other: each has its own names.
os.mkdir("ranks")
torch_save(state, "ranks/rank0.pt")
state["optimizer"][0]["exp_avg"] = tensor(weight, [2], 9)
torch_save(state, "ranks/rank1.pt")
assert ("rank0.pt", "model.a") in names("ranks") and ("rank1.pt", "model.a") in names("ranks")
status, out, _ = run("--redundancy", "ranks")
assert status == 0 and out.endswith(
    "144 B in all; 64 B are copies of what another rank has saved\n"
), out
assert re.search(r"128 B +64 B +2 +full +- +model.a\n", out), out
assert re.search(r"16 B +0 B +2 +none +- +optimizer.0.exp_avg\n", out), out
os.mkdir("later")
torch_save(state, "later/rank0.pt")
torch_save(state, "later/rank1.pt")
status, out, _ = run("--redundancy", "--json", "later", "ranks")
compared = json.loads(out)
assert compared["unchanged_bytes"] == 136 and compared["redundant_bytes"] == 72, compared
since = {t["name"]: t["since"] for t in compared["tensors"]}
assert since == {"model.a": "unchanged", "optimizer.0.exp_avg": "part"}, since

# A set of Hugging Face: names are those of the whole, and no file may have one twice.
os.mkdir("set")
for n in (1, 2):
    safetensors({f"w{n}": ("BF16", [2, 2], bytes(8))}, f"set/model-0000{n}-of-00002.safetensors")
with open("set/model.safetensors.index.json", "w") as file:
    json.dump({"weight_map": {}}, file)
with open("set/config.json", "w") as file:
    file.write("{}")
assert names("set") == [(None, "w1"), (None, "w2")]
safetensors({"w1": ("BF16", [2, 2], bytes(8))}, "set/model-00003-of-00003.safetensors")
assert "another file" in index("set")["opaque"][0]["reason"]

# A file that the index names and that is not there, and one that is cut off, are missing.
with open("set/model.safetensors.index.json", "w") as file:
    json.dump({"weight_map": {"w1": "model-00001-of-00002.safetensors", "x": "gone.bin"}}, file)
assert [(o["path"], o["missing"]) for o in index("set")["opaque"] if "missing" in o] == [
    ("gone.bin", True)
]
assert run("set")[0] == 1
os.mkdir("torn")
torch_save(state, "torn/whole.pt")
with open("torn/whole.pt", "rb") as whole, open("torn/cut.pt", "wb") as cut:
    cut.write(whole.read()[:-30])
status, out, _ = run("torn")
assert status == 1 and "missing  cut.pt: it is no whole zip file" in out, out

# DCP's writer for Hugging Face cuts tensors. Its newer files have the shape of the whole.
os.mkdir("cut")
for n, rows in ((0, 2), (1, 1)):
    sharding = {"w": {"saved_offsets": [2 * n, 0]}, "v": {"saved_offsets": [4 * n]}}
    sharding["v"]["global_shape"] = [12]
    safetensors(
        {"w": ("F32", [rows, 2], bytes(8 * rows)), "v": ("F32", [4], bytes(16))},
        f"cut/shard-0000{n}-model-00001-of-00001.safetensors",
        {"DCP_SHARDING_INFO": json.dumps(sharding)},
    )
found = {t["name"]: t for t in index("cut")["tensors"]}
assert found["w"]["shape"] == [3, 2] and found["w"]["inferred"], found["w"]
assert found["w"]["state"] == "complete"
assert found["v"]["shape"] == [12]
assert found["v"]["state"] == "hole: 16 of 48 bytes are missing, first at index 8 of dimension 0"
status, out, _ = run("cut")
assert status == 1 and "1 of them incomplete" in out and "\n         hole: 16 of 48" in out, out

# What a rank has of a tensor that is spread over ranks is not the tensor of that name.
part = tensor(weight, [4, 4])


def wrapper(kind, state):
    """How torch.save writes a tensor that wraps others."""
    call = function("torch._tensor", "_rebuild_from_type_v2")
    return Call(call, function("torch._utils", "_rebuild_wrapper_subclass"), kind, (), state)


dtensor = wrapper(named("torch.distributed.tensor", "DTensor"), (None, {"_local_tensor": part}))
shards = [instance("torch.distributed", "Shard", tensor=part) for _ in range(2)]
sharded = wrapper(named("torch.distributed", "ShardedTensor"), (shards, None))
other = wrapper(named("somewhere", "Other"), (None, {"inner": part}))
torch_save({"d": dtensor, "s": sharded, "o": other}, "parts.pt")
assert names("parts.pt") == [
    (None, "d (local part)"),
    (None, "s (local part 1)"),
    (None, "s (local part)"),
], names("parts.pt")
assert index("parts.pt")["opaque"] == [
    {
        "path": "parts.pt",
        "reason": "it is no plain tensor: its class has a form of its own",
        "name": "o",
    }
]

# torch_checkpointing says beside its files how they are spread.
os.mkdir("tc")
for rank in range(4):
    rows = Storage("0", "FloatStorage", bytes(4 * 3 * (2 - rank // 2)))
    local = tensor(rows, [2 - rank // 2, 3])
    torch_save({"w": wrapper(None, (None, {"_local_tensor": local}))}, f"tc/model_{rank}.pt")


def spread(shape, *placements):
    mesh = {"mesh_shape": (2, 2), "mesh_data": (0, 1, 2, 3)}
    data = {"global_shape": shape, "mesh_spec": mesh, "placements": placements}
    return {"sharding_metadata": {"type": "DTensorShardingMetadata", "data": data}}


def describe(shape, *placements):
    entries = {'["w"]': [spread(shape, *placements)], '["gone"]': [spread([8], *placements)]}
    with open("tc/metadata.pkl", "wb") as file:
        pickle.dump({"metadata": {"model": {"nested_path_to_metadata": entries}}}, file)


describe([3, 3], {"type": "Shard", "dim": 0}, {"type": "Replicate"})
(found,) = index("tc")["tensors"]
assert found["name"] == "w" and found["shape"] == [3, 3] and found["state"] == "complete", found
assert [(p["path"], p["offset"], p["length"]) for p in found["pieces"]] == [
    ("model_0.pt", [0, 0], [2, 3]),
    ("model_1.pt", [0, 0], [2, 3]),
    ("model_2.pt", [2, 0], [1, 3]),
    ("model_3.pt", [2, 0], [1, 3]),
], found
os.rename("tc/model_3.pt", "away.pt")
os.rename("tc/model_2.pt", "away2.pt")
(found,) = index("tc")["tensors"]
assert found["state"].startswith("hole: 12 of 36 bytes are missing"), found
for placements in (
    ({"type": "Shard", "dim": 2}, {"type": "Replicate"}),
    ({"type": "Partial"}, {"type": "Replicate"}),
    ({"type": "Shard", "dim": 0},),
    ({"type": "Shard", "dim": 0}, {"type": "Shard", "dim": 1}),
):
    describe([3, 3], *placements)  # unknown, or not what the files hold
    assert [name for _, name in names("tc")] == ["w (local part)"] * 2, placements

# Whether training changes a tensor.
grad = Call(function("torch._utils", "_rebuild_parameter"), part, True, None)
fixed = Call(function("torch._utils", "_rebuild_parameter"), part, False, None)
torch_save({"grad": grad, "fixed": fixed, "plain": part}, "grad.pt")
assert [t["name"] for t in index("grad.pt")["tensors"] if t.get("requires_grad")] == ["grad"]

# A view of the same length in another form comes between two tensors that are tied.
torch_save({"a": part, "b": tensor(weight, [16]), "c": part}, "between.pt")
assert [t.get("alias") for t in index("between.pt")["tensors"]] == [None, None, "a"]

# Where names say nothing of the part, that of the file does.
os.mkdir("trainer")
torch_save({"w": part}, "trainer/pytorch_model.bin")
torch_save({"state": {0: {"step": part}}}, "trainer/optimizer.pt")
assert [(t["name"], t["part"]) for t in index("trainer")["tensors"]] == [
    ("state.0.step", "optimizer"),
    ("w", "model"),
]

# What is no checkpoint, and what is not there.
os.mkdir("empty")
status, out, err = run("empty")
assert status == 1 and out == "0 tensors, 0 B: none was found\n", out
status, out, err = run("nowhere")
assert status == 3 and "the tensors of nowhere cannot be listed: No such file" in err, err
for name in ("x.h5", "x.keras", "manifest.ocdbt", "x.npz", "__0_0.distcp"):
    with open("empty/" + name, "wb"):
        pass
assert len(index("empty")["opaque"]) == 5
