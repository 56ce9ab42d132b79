#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""What a lazy save tells of its tensors: the commit file has the name, type and shape of each that
was captured, and its place; and not what lies between them. `ckptfs tensors` finds all of them."""

import hashlib
import json
import os
import sys

import lazily
from lazily import SRC

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from harness.mount import Mount, must

import ckptfs
from ckptfs import dcp, known
from ckptfs.session import Shape

sys.path.insert(0, SRC + "/tests/tensors")
from compare import assemble, index

torch.set_num_threads(1)
mount = Mount({"host_cache_size": "64M"})
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(96, 96) for _ in range(12)))
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(4, 96)).square().mean().backward()
optimizer.step()


def digest(tensor):
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def flat(value, name=""):
    if isinstance(value, torch.Tensor):
        return {name: value}
    found = {}
    if isinstance(value, dict):
        for key, one in value.items():
            found.update(flat(one, f"{name}.{key}" if name else str(key)))
    return found


def check(path, want):
    """What the index says of @path is @want: name -> tensor."""
    found = {t["name"]: t for t in index(path)["tensors"]}
    assert set(found) == set(want), set(found) ^ set(want)
    for name, tensor in want.items():
        told = found[name]
        assert told["state"] == "complete" and told["shape"] == list(tensor.shape), told
        assert assemble(path, told) == digest(tensor), name


# --- DCP ---

net, state = get_state_dict(model, optimizer)
want = flat({"model": net, "optim": state})
path = mount.mnt + "/step-1"
checkpoint.save({"model": net, "optim": state, "step": 1}, storage_writer=dcp.Writer(path))
ckptfs.barrier()
must("wait", path)
back = os.path.join(os.path.dirname(mount.mnt), "back", "step-1")
with open(back + "/.ckptfs-commit.json", encoding="utf-8") as file:
    lines = json.load(file)["tensors"]
lazy = {name: tensor for name, tensor in want.items() if tensor.nbytes >= 16 << 10}
assert len(lazy) == 36 and {line["name"] for line in lines} == set(lazy), lines
for line in lines:
    tensor = lazy[line["name"]]
    assert "kind" not in line and line["dtype"] == "F32", line
    assert line["shape"] == line["length"] == list(tensor.shape), line
    assert line["offset"] == [0, 0] and line["bytes"] == tensor.nbytes, line
    with open(os.path.join(back, line["path"]), "rb") as file:
        file.seek(line["at"])
        assert hashlib.sha256(file.read(line["bytes"])).hexdigest() == digest(tensor), line
check(path, want)
check(back, want)

# --- a chunk of a larger tensor, and one that is not what it says ---

item = type("Item", (), {})()
item.tensor_data = type("Data", (), {"size": (192, 96)})()
item.tensor_data.chunk = type("Chunk", (), {"offsets": (96, 0), "sizes": (96, 96)})()
assert dcp._shape_of(item, model[0].weight) == Shape("F32", (192, 96), (96, 0), (96, 96))
assert dcp._shape_of(item, model[0].bias) is None
session = ckptfs.session_of(mount.mnt)
source = ckptfs.lazy.source_of(
    model[0].weight.data_ptr(),
    model[0].weight.nbytes,
    torch.device("cpu"),
    "wrong",
    0,
    model[0].weight,
    Shape("F32", (96, 96), (0, 0), (96, 95)),
)
with open(mount.mnt + "/wrong.pt", "wb", 0) as file:
    error = lazily.fails(session.write_sources, file.fileno(), [source])
assert "wrong" in str(error), error

# --- what this rank has of a DTensor is not that tensor ---

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
parted = distribute_tensor(torch.randn(64, 96), mesh, [Shard(0)])
(told,) = known.names({"w": parted}).values()
assert told[0] == "w (local part)" and told[1] is not parted, told
dist.destroy_process_group()

# --- torch.save ---

path = mount.mnt + "/step-2.pt"
saved = {"model": model.state_dict(), "step": 2}
ckptfs.save(saved, path)
ckptfs.barrier()
must("wait", path)
single = {t["name"]: t for t in index(path)["tensors"]}
for name, tensor in flat(saved).items():
    assert assemble(os.path.dirname(path), single[name]) == digest(tensor), name
session.close()
mount.umount()
