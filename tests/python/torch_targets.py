#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""ckptfs.dcp.Reader and ckptfs.load of a directory, into tensors of any kind, of files that are
many, odd, damaged or replaced meanwhile."""

import os
import resource
import warnings

from lazily import TMP, fails

import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader
from torch.testing._internal.two_tensor import TwoTensor

from harness.mount import Mount

import ckptfs
from ckptfs import reading, views

warnings.simplefilter("ignore")
torch.set_num_threads(1)
mount = Mount({})
top = mount.mnt + "/run"
os.mkdir(top)


def raised(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError("nothing was raised")


# --- dcp.Reader ---

torch.manual_seed(1)
state = {
    "complex": torch.randn(4, 5, dtype=torch.complex64),
    "plain": torch.randn(4, 5),
    "turned": torch.randn(300, 200).t(),
    "large": torch.randn(2048, 1024),
    "large_turned": torch.randn(1024, 2048).t(),
    "whole": torch.arange(20.0).view(4, 5),
}
path = TMP + "/dcp"
checkpoint.save(state, checkpoint_id=path)
targets = {
    "complex": torch.zeros(4, 5, dtype=torch.complex64).conj(),
    "plain": torch._neg_view(torch.zeros(4, 5)),
    "turned": torch.zeros(200, 300),
    "large": torch.zeros(1024, 2048).t(),
    "large_turned": torch.zeros(2048, 1024, dtype=torch.bfloat16),
    "whole": TwoTensor(torch.zeros(4, 5), torch.zeros(4, 5)),
}
checkpoint.load(targets, storage_reader=ckptfs.dcp.Reader(path, threads=0))
for name, tensor in state.items():
    got = targets[name].a if name == "whole" else targets[name]
    assert torch.equal(got.resolve_conj().resolve_neg(), tensor.to(got.dtype)), name


class InTurn(DefaultLoadPlanner):
    """As Megatron-core's: a tensor is committed right after it was resolved."""

    open = None

    def resolve_tensor(self, item):
        assert self.open is None
        self.open = item
        return super().resolve_tensor(item)

    def commit_tensor(self, item, tensor):
        assert self.open is item
        self.open = None


got = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
checkpoint.load(got, storage_reader=ckptfs.dcp.Reader(path), planner=InTurn())
assert all(torch.equal(got[name], tensor) for name, tensor in state.items())

# Of a column only what is wanted is read.
wide = torch.randn(1024, 4096)
checkpoint.save({"wide": wide}, checkpoint_id=TMP + "/wide")


class Columns(DefaultLoadPlanner):
    """Asks for some columns of each tensor."""

    def create_local_plan(self):
        plan = super().create_local_plan()
        for item in plan.items:
            object.__setattr__(item, "storage_offsets", torch.Size([0, 1000]))
            object.__setattr__(item, "dest_offsets", torch.Size([0, 1000]))
            object.__setattr__(item, "lengths", torch.Size([1024, 512]))
        return plan


read, fill = [], reading.Files.fill
reading.Files.fill = lambda self, path, view, *args: (
    read.append(view.nbytes) or fill(self, path, view, *args)
)
got = {"wide": torch.zeros(1024, 4096)}
checkpoint.load(got, storage_reader=ckptfs.dcp.Reader(TMP + "/wide"), planner=Columns())
reading.Files.fill = fill
assert torch.equal(got["wide"][:, 1000:1512], wide[:, 1000:1512])
assert not got["wide"][:, :1000].any() and not got["wide"][:, 1512:].any()
assert sum(read) < 1.1 * 1024 * 512 * 4, sum(read)

# Damaged and cut.
file = path + "/__0_0.distcp"
with open(file, "rb") as whole:
    data = whole.read()
one = data.index(b"archive/data/0") - 30
for damaged in (data[: one + 29] + b"\x10" + data[one + 30 :], b"", data[:-3000]):
    with open(file, "wb") as whole:
        whole.write(damaged)
    got = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    raised(BaseException, checkpoint.load, got, storage_reader=FileSystemReader(path))
    error = raised(BaseException, checkpoint.load, got, storage_reader=ckptfs.dcp.Reader(path))
    assert "__0_0.distcp: it ends at" in str(error) or len(damaged) == len(data), error

# --- views ---

unit = top + "/step-1"


def save(tensors):
    checkpoint.save(tensors, checkpoint_id=unit)
    mount.settled()


save({f"w{n}": torch.full((4, 4), float(n)) for n in range(400)})
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 80, hard))
found = ckptfs.load(unit, view="max=1")
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
assert len(found) == 400 and all((found[f"w{n}"] == n).all() for n in range(400))
with torch.device("meta"):
    assert ckptfs.load(unit, view="only=w7")["w7"][0, 0] == 7

save(state | {"a/b": torch.zeros(2)})
into = {"complex": torch.zeros(4, 5, dtype=torch.complex64).conj()}
ckptfs.load(unit, view="only=complex", into=into)
assert torch.equal(into["complex"].resolve_conj(), state["complex"])
into = {"plain": TwoTensor(torch.zeros(4, 5), torch.zeros(4, 5))}
ckptfs.load(unit, view="only=plain", into=into)
assert torch.equal(into["plain"].b, state["plain"])
assert list(ckptfs.load(unit, view="only=a?b")) == ["a/b"]

# What is replaced meanwhile is no mixture.
header = views._header


def replaced(files, path):
    found = header(files, path)
    views._header = header
    save({name: tensor + 1 for name, tensor in state.items()} | {"another": torch.zeros(9)})
    return found


views._header = replaced
try:
    got = ckptfs.load(unit, view="only=plain")
    assert torch.equal(got["plain"], state["plain"])
except ckptfs.CheckpointError as error:
    assert "was replaced while it was read" in str(error)
assert torch.equal(ckptfs.load(unit, view="only=plain")["plain"], state["plain"] + 1)

for arguments, text in (
    ({"view": "layout=llama,tp=2"}, "give layout to ckptfs.load itself"),
    ({"view": "npy"}, "in the form of safetensors"),
    ({"view": "only=nothing*"}, "has no tensor"),
    ({"view": "only=a/b"}, "no '/' can stand in it"),
    ({"layout": "llama", "tp": 0}, "no numbers of ranks"),
    ({"view": "part=all", "map_location": {"cpu": "cpu"}}, "map_location is a device"),
    ({"view": "only=plain", "into": {"plain": torch.zeros(4, 5, dtype=torch.int8)}}, "is wanted"),
):
    assert text in str(fails(ckptfs.load, unit, **arguments)), (arguments, text)
assert "is no directory" in str(fails(ckptfs.load, file, view="part=all"))
mount.umount()
