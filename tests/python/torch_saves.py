#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""What ckptfs.save writes: a file that stock torch.load reads in all its ways, of all kinds of
tensors; and when it is not lazy, and says why."""

import contextlib
import errno
import io
import os
import pickle
import subprocess
import sys
import threading
import types
import weakref
import zipfile

from lazily import TMP, Said, copy, state_of

import torch
from torch import nn

from harness.digest import digest
from harness.mount import Mount, must, wait

import ckptfs
from ckptfs import CheckpointError, hooks, known, lazy

torch.set_num_threads(1)
mount = Mount({"host_cache_size": "64M", "capture_check": "all"})
session = ckptfs.session_of(mount.mnt)
said = Said()


def path_of(name):
    return mount.mnt + "/" + name


def captures():
    return session.stats().captures


def same(path, want, **arguments):
    for more in {}, {"mmap": True}, {"weights_only": False}:
        got = torch.load(path, **dict(arguments, **more))
        assert digest(got) == digest(want), (path, more)
    return got


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 200)
        self.norm = nn.BatchNorm1d(200)
        self.out = nn.Linear(200, 100, bias=False)
        self.out.weight = self.embedding.weight  # tied
        self.empty = nn.Parameter(torch.empty(0, 7))
        self.turned = nn.Parameter(torch.randn(300, 200).t())


torch.manual_seed(3)
model = Shared()
optimizer = torch.optim.AdamW(model.parameters())


def step():
    (
        model.out(model.norm(model.embedding(torch.arange(50)))).square().mean()
        + model.turned.square().mean()
        + model.empty.sum()
    ).backward()
    optimizer.step()
    optimizer.zero_grad()


# Before a step there is no state of the optimizer; after it there is.
whole = torch.randn(100, 100)
for i in range(3):
    state = state_of(
        model,
        optimizer,
        view=whole[3:9],
        turned=whole.t(),
        slice=whole[:, ::2],
        empty=torch.empty(0),
        half=whole.half(),
        flags=whole > 0,
        zero=torch.tensor(3.5),
        complex=torch.randn(3, dtype=torch.complex64),
        integers=torch.arange(10),
        step=i,
        words=["a", None, 1.5],
        rng=torch.get_rng_state(),
        device=torch.device("cpu"),
    )
    before = captures()
    ckptfs.save(state, path_of("a.pt"))
    lazily = captures() - before
    # Parameters of 16 KiB and more, and their two moments; of an optimizer that is younger than the
    # session, once it steps.
    assert lazily == (0 if i == 0 else 6), lazily
    want = copy(state)
    step()
    same(path_of("a.pt"), want, weights_only=True)
got = torch.load(path_of("a.pt"))
assert got["model"]["out.weight"].data_ptr() == got["model"]["embedding.weight"].data_ptr()
assert got["turned"].untyped_storage().data_ptr() == got["view"].untyped_storage().data_ptr()
assert got["model"]["turned"].stride() == model.turned.stride() and got["slice"].stride() == (
    100,
    2,
)
session.barrier(landed=True)
must("wait", "--timeout", "60", path_of("a.pt"))
must("verify", mount.back + "/a.pt")  # its structure was accepted, its digest is right
assert zipfile.ZipFile(mount.back + "/a.pt").read("archive/byteorder") == b"little"

# torch.save's own file differs in nothing but check sums, and the number that it makes of them.
plain, state = io.BytesIO(), state_of(model, optimizer)
torch.save(state, plain)
ckptfs.save(state, path_of("bytes.pt"))
with open(path_of("bytes.pt"), "rb") as file:
    ours = file.read()
assert len(ours) == len(plain.getvalue())
storages = len([name for name in zipfile.ZipFile(plain).namelist() if "/data/" in name])
assert sum(a != b for a, b in zip(ours, plain.getvalue())) <= storages * 8 + 3 * 40

# Registered tensors are lazy without any optimizer; and not, when that is undone. They are let go
# with it.
weights = {"big": torch.randn(100, 100), "nested": [torch.randn(100, 100)]}
session.register(weights)
for lazily in 2, 0:
    before = captures()
    ckptfs.save(weights, path_of("b.pt"))
    assert captures() - before == lazily
    ckptfs.barrier()
    session.unregister(weights)
alone = nn.Linear(100, 100)
ckptfs.register(alone, path=mount.mnt)
before = captures()
ckptfs.save(alone.state_dict(), path_of("b.pt"))
assert captures() - before == 1
ckptfs.barrier()
# Parameters that are in no group between the steps (DeepSpeed, ZeRO 3) are the optimizer's all the
# same.
session.unregister(alone)
apart = torch.optim.AdamW(alone.parameters())
alone(torch.randn(2, 100)).sum().backward()
apart.step()
apart.param_groups[0]["params"] = []
before = captures()
ckptfs.save(alone.state_dict(), path_of("b.pt"))
assert captures() - before == 1
ckptfs.barrier()
del apart
gone = weakref.ref(alone)
del alone
assert gone() is None

# A change by hand of what is eager is none that anybody sees.
mean = torch.ones(100, 100)
ckptfs.save({"mean": mean}, path_of("eager.pt"))
mean.zero_()
assert torch.load(path_of("eager.pt"))["mean"].min() == 1

# A wrapper's memory is that of the tensor in it.
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard, init_device_mesh

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
sharded = nn.Parameter(
    DTensor.from_local(torch.randn(100, 100), init_device_mesh("cpu", (1,)), [Shard(0)])
)
other = torch.optim.AdamW([sharded], lr=0.1)
for _ in range(2):
    sharded.grad = DTensor.from_local(torch.ones(100, 100), sharded.device_mesh, [Shard(0)])
    other.step()
before = captures()
ckptfs.save({"w": sharded.detach(), "o": other.state_dict()}, path_of("sharded.pt"))
assert captures() - before == 3, captures() - before
want = sharded.full_tensor().detach().clone()
other.step()
got = torch.load(path_of("sharded.pt"), weights_only=False)
assert torch.equal(got["w"].full_tensor(), want) and not torch.equal(sharded.full_tensor(), want)
dist.destroy_process_group()

# Arguments of torch.save.
ckptfs.save(model.state_dict(), path_of("c.pt"), pickle_protocol=3)
same(path_of("c.pt"), copy(model.state_dict()))
ours = types.ModuleType("ours")
ours.__dict__.update(pickle.__dict__)
ckptfs.save(model.state_dict(), path_of("c.pt"), ours)
same(path_of("c.pt"), copy(model.state_dict()))
with (
    torch.utils.serialization.config.patch({"save.storage_alignment": 4096})
    if hasattr(torch.utils, "serialization")
    else contextlib.nullcontext()
):
    ckptfs.save(model.state_dict(), path_of("c.pt"))
same(path_of("c.pt"), copy(model.state_dict()))
assert not said.lines, said.lines


# Where it cannot be lazy, torch.save does it, and it is said why, once.
def not_lazy(why, obj, f, **arguments):
    before, said.lines[:] = captures(), []
    lazy._said.clear()
    for _ in range(2):
        ckptfs.save(obj, f, **arguments)
    assert captures() == before and len(said.lines) == 1 and why in said.lines[0], (said.lines, why)


not_lazy("plain.pt lies in no mount of ckptfs: ", model.state_dict(), TMP + "/plain.pt")
same(TMP + "/plain.pt", copy(model.state_dict()))
not_lazy("f is no path", model.state_dict(), io.BytesIO())
not_lazy("old format", model.state_dict(), path_of("old.pt"), _use_new_zipfile_serialization=False)
assert digest(torch.load(path_of("old.pt"))) == digest(model.state_dict())
quantized = torch.quantize_per_tensor(torch.randn(100, 100), 0.1, 0, torch.qint8)
not_lazy("qtensor", {"q": quantized, "m": model.state_dict()}, path_of("quantized.pt"))
assert torch.equal(torch.load(path_of("quantized.pt"))["q"].dequantize(), quantized.dequantize())
skip_data = torch.serialization.skip_data
del torch.serialization.skip_data
not_lazy("has no torch.serialization.skip_data", model.state_dict(), path_of("d.pt"))
torch.serialization.skip_data = skip_data
same(path_of("d.pt"), copy(model.state_dict()))
# What pickle says, pickle says; and what is there stays.
for bad in lambda: 1, threading.Lock():
    try:
        ckptfs.save({"m": model.state_dict(), "bad": bad}, path_of("d.pt"))
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    else:
        raise AssertionError
same(path_of("d.pt"), copy(model.state_dict()))
try:
    ckptfs.save(model.state_dict(), path_of("nowhere/d.pt"))
except (OSError, RuntimeError):
    pass
else:
    raise AssertionError

# What was not written to its end is no file of torch.save, which is seen; the old one stays.
write = os.pwritev


def interrupted(fd, views, at):
    if at > 60000:
        raise OSError(errno.EIO, "as if")
    return write(fd, views, at)


os.pwritev = interrupted
try:
    ckptfs.save(model.state_dict(), path_of("d.pt"))
except OSError:
    pass
else:
    raise AssertionError
os.pwritev = write
ckptfs.barrier(landed=True)
wait(lambda: not mount.status()["pending"])
same(mount.back + "/d.pt", copy(model.state_dict()))


# --- CUDA, of which there is none here: what would be asked of it ---
class Stream:
    def __init__(self, handle):
        self.cuda_stream = handle


class Barrier:
    """Stands for a session."""

    def __init__(self):
        self.asked, self.pending, self.devices = [], True, {1, 0}

    alive = True

    def devices_pending(self):
        return self.devices

    def barrier_in_hook(self, streams=()):
        self.asked.append(list(streams))
        self.pending = False


class Graph:
    replayed = 0

    def replay(self):
        Graph.replayed += 1


real = (
    torch.cuda.current_stream,
    torch.cuda.is_initialized,
    torch.cuda.is_current_stream_capturing,
    hooks.sessions,
)
torch.cuda.current_stream = lambda device=None: Stream(
    7000 + torch.device("cuda", device if isinstance(device, int) else device.index).index
)
source = lazy.source_of(0x1000, 64, torch.device("cuda", 1), "w", 4096, None)
assert (source.memory, source.stream, source.device, source.file_off) == (
    ckptfs._lib.CUDA,
    7001,
    1,
    4096,
), source
assert session.takes(ckptfs._lib.HOST) and session.takes(ckptfs._lib.CUDA) in (
    False,
    torch.cuda.is_available(),
)


class Device:
    """A storage, or a tensor, on one."""

    device = torch.device("cuda", 1)
    bytes = torch.arange(5000.0)

    def data_ptr(self):
        return 0x1000

    def nbytes(self):
        return self.bytes.nbytes

    def cpu(self):
        return self.bytes.untyped_storage()


for takes in True, False:
    session._takes[ckptfs._lib.CUDA] = takes
    writer = lazy.Writer(session, {known.key_of(Device())})
    writer.add_storage(Device(), None, "w", 64)
    assert (len(writer.sources), len(writer.parts)) == (int(takes), int(not takes))
    assert takes or bytes(lazy._view(writer.parts[0][1])) == Device.bytes.numpy().tobytes()
del session._takes[ckptfs._lib.CUDA]
one = Barrier()
hooks.sessions = lambda: [one]
hooks._before_step(optimizer, (), {})
assert one.asked == [[7000, 7001]], one.asked
# A step that is captured in a graph: what waits has landed before; from then on a barrier stands
# before each replay.
graph, torch.cuda.CUDAGraph = torch.cuda.CUDAGraph, Graph
torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: True
one.asked, one.pending = [], True
hooks._before_step(optimizer, (), {})
assert one.asked == [[]], one.asked
torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: False
one.asked, one.pending = [], True
Graph().replay()
assert one.asked == [[7000, 7001]] and Graph.replayed == 1
hooks._before_step(optimizer, (), {})
torch.cuda.CUDAGraph = graph
(
    torch.cuda.current_stream,
    torch.cuda.is_initialized,
    torch.cuda.is_current_stream_capturing,
    hooks.sessions,
) = real

# Cheap when nothing is pending: a step asks nothing of the library.
session.barrier(landed=True)
before = session.stats().barriers
for _ in range(3):
    step()
assert session.stats().barriers == before

# Who cannot be lent any cache saves plainly, says why, and is lazy once there is some.
session.close()
greedy = []
with contextlib.suppress(CheckpointError):
    while True:
        greedy.append(ckptfs.Session(mount.mnt, arena_bytes=64 << 20))
script = """if True:
    import sys, torch, ckptfs
    model = torch.nn.Linear(300, 300)
    optimizer = torch.optim.SGD(model.parameters())
    for path in sys.argv[1:]:
        ckptfs.save(model.state_dict(), path)
        print(sum(one.stats().captures for one in ckptfs.session.sessions()), flush=True)
        input()
"""
with subprocess.Popen(
    [sys.executable, "-c", script, path_of("none.pt"), path_of("some.pt")],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
) as child:
    assert child.stdout.readline() == "0\n"
    for one in greedy:
        one.close()
    child.stdin.write("\n\n")
    told = child.communicate()
    assert told[0] == "1\n" and "host_cache_size" in told[1] and not child.returncode, told
for name in "none.pt", "some.pt":
    ckptfs.wait(path_of(name))
session = ckptfs.session_of(mount.mnt)

# The daemon is another one: the session, too.
session.barrier(landed=True)
mount.kill()
mount.umount()
mount.start()
ckptfs.save(model.state_dict(), path_of("again.pt"))
step()
assert ckptfs.session_of(mount.mnt) is not session
ckptfs.barrier(landed=True)  # nothing was lost with the old one
assert not session.alive and ckptfs.session_of(mount.mnt).stats().captures
ckptfs.session_of(mount.mnt).close()
mount.umount()
same(mount.back + "/a.pt", torch.load(mount.back + "/a.pt"))
assert os.path.exists(mount.back + "/again.pt")
