#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""A plan that serves more than one save: whatever changes between two saves, each file is what
torch.save writes; and what changes at each step of a training is not planned anew."""

import collections
import io
import math
import threading
import zipfile

import lazily  # noqa: F401

import numpy
import torch
from torch import nn

from harness.digest import digest
from harness.mount import Mount

import ckptfs
from ckptfs import reuse, skeleton

torch.set_num_threads(1)
mount = Mount({"host_cache_size": "64M"})
session = ckptfs.session_of(mount.mnt)
PATH = mount.mnt + "/a.pt"

plans = 0
planned = skeleton.plan_and_pickle


def counted(*args, **kwargs):
    global plans
    plans += 1
    return planned(*args, **kwargs)


skeleton.plan_and_pickle = counted


def contents(file):
    """Of a file of torch.save all that does not depend on the check sums of storages."""
    with zipfile.ZipFile(file) as z:
        names = [
            (i.filename, i.header_offset, i.file_size, None if "/data/" in i.filename else i.CRC)
            for i in z.infolist()
            if not i.filename.endswith("serialization_id")
        ]
        return names, z.read("archive/data.pkl")


def made_of_itself(state):
    return (
        isinstance(state, dict)
        and isinstance(state.get("turns"), list)
        and state["turns"][-1] is state["turns"]
    )


def resolved(state):
    """With tensors that can be digested."""
    if isinstance(state, torch.Tensor):
        if state.is_meta:
            return tuple(state.shape)
        return (state.to_dense() if state.is_sparse else state).resolve_conj().resolve_neg()
    if isinstance(state, dict):
        return {key: resolved(value) for key, value in state.items()}
    return [resolved(value) for value in state] if type(state) in (list, tuple) else state


def check(state):
    """Saves it. Returns how often something was planned for that."""
    before = plans
    ckptfs.save(state, PATH)
    made = plans - before
    stock = io.BytesIO()
    torch.save(state, stock)
    with open(PATH, "rb") as file:
        ours = file.read()
    assert len(ours) == len(stock.getvalue()), (len(ours), len(stock.getvalue()))
    assert contents(io.BytesIO(ours)) == contents(stock), repr(state)
    if made_of_itself(state):
        return made
    got, want = (
        resolved(torch.load(io.BytesIO(one), weights_only=False))
        for one in (ours, stock.getvalue())
    )
    assert digest(got) == digest(want), state
    ckptfs.barrier()
    return made


def check_all(*states):
    """One after the other, twice: each is unlike the one before it, and as one before that."""
    for state in states:
        check(state())
    for state in states:
        check(state())


# --- a training: its first save is planned; and its second, to find what numbers there are ---
torch.manual_seed(5)
model = nn.Sequential(nn.Linear(200, 100), nn.BatchNorm1d(100), nn.Linear(100, 100))
optimizer = torch.optim.AdamW(model.parameters())
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
made = []
for i in range(1000, 1010):
    model(torch.randn(8, 200)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    captures = session.stats().captures
    made.append(
        check(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
                "step": i,
                "rng": torch.get_rng_state(),
                "loss": i / 7,
                "best": None,
                "args": ("a", b"b", torch.float16, torch.device("cpu"), {3: [1, 2]}),
            }
        )
    )
    assert session.stats().captures - captures >= (6 if i > 1000 else 0)
assert made[0] == 1 and made[1] <= 1 and not any(made[2:]), made
small = torch.arange(5.0)  # written by its value, each time
for i in range(4):
    made = check({"a": small, "i": i})
    small += 1
assert made == 0

# --- numbers: of other kinds, lengths, and those that are equal and not the same ---
x = torch.randn(100, 100)
check_all(
    *[
        lambda n=n: {"x": x, "n": n, "m": [n, 7, n]}
        for n in (
            5,
            6,
            255,
            256,
            70000,
            1 << 40,
            -1,
            1,
            True,
            1.0,
            None,
            0,
            0.0,
            -0.0,
            math.nan,
            -math.nan,
            False,
            2.5,
            0x4B00,
            "5",
        )
    ]
)
# What is looked for to find them lies elsewhere, too.
check_all(*[lambda n=n: {"x": x, "n": n, "t": b"K\x05K\x06", 5: "K\x05"} for n in (5, 6, 7)])

# --- tensors, which show the same memory in another way, or another ---
y, z, many = torch.randn(100, 100), torch.randn(100, 100), torch.randn(30000)
turned = torch.randn(100, 100).to(torch.complex64)
same_list, same_dict = [1], {"a": 1}
other = nn.Parameter(x)
other_off = nn.Parameter(x, requires_grad=False)
check_all(
    *[
        lambda t=t: {"x": t, "end": 1}
        for t in (
            x,
            x.view(torch.int32),
            x.view(50, 200),
            x.t(),
            x[1:],
            x[2:],
            x[:-1],
            x[:, :50],
            x[:, 50:],
            y,
            x.detach().requires_grad_(),
            other,
            other_off,
            many[:10000].view(100, 100),
            many[10000:20000].view(100, 100),
            torch.empty(0),
            torch.empty(0, 3),
            turned,
            turned.conj(),
            turned.real,
            turned.imag,
            turned.conj().imag,
            x.half(),
            x > 0,
            torch.tensor(1.5),
            torch.tensor(2.5),
            x.to_sparse(),
            torch.empty(3, device="meta"),
        )
    ]
)
check_all(
    *[
        lambda p=p: {"p": p}
        for p in (
            [x, x],
            [x, x.detach()],
            [x, y],
            [x, x.clone()],
            [x[:50], x[50:]],
            [x[:50], y[50:]],
            [x, x, y],
            (x, y),
            [x, [y]],
            [[x], y],
            [[x, y]],
            ((x,), y),
            ((x, y),),
            [x, None, y],
            [x, y, x.detach()],
            [x, y, y.detach()],
            [x, y, z],
        )
    ]
)
check_all(
    lambda: {"a": x, "b": y},
    lambda: {"b": y, "a": x},
    lambda: {"a": y, "b": x},
    lambda: {"a": x, "c": y},
    lambda: {"a": x},
    lambda: {"a": x, 1: y},
    lambda: {"a": x, True: y},
    lambda: {"a": x, 1.0: y},
    lambda: {"a": x, "1": y},
    lambda: collections.OrderedDict(a=x, b=y),
    lambda: [("a", x), ("b", y)],
)

# --- texts, and what else is written in the pickle ---
check_all(
    *[
        lambda t=t: {"x": x, "t": t}
        for t in (
            "a",
            "b",
            "ab",
            "",
            b"a",
            b"b",
            bytearray(b"a"),
            bytearray(b"b"),
            torch.float32,
            torch.float64,
            torch.device("cpu"),
            torch.device("cuda", 0),
            torch.device("cuda", 1),
            1 + 2j,
            {1},
            {2},
            range(2),
            range(3),
        )
    ]
)

# --- what is one and the same, and what is only equal ---
check_all(
    lambda: [x, [1], [1]],
    lambda: [x, same_list, same_list],
    lambda: [x, {"a": 1}, {"a": 1}],
    lambda: [x, same_dict, same_dict],
    lambda: [x, (1,), (1,)],
)
one, two = [1], [2]
check_all(lambda: [x, one, two, one], lambda: [x, one, two, two])
turns = [1]
turns.append(turns)
check_all(lambda: {"x": x, "turns": turns}, lambda: {"x": x, "turns": [1, 2]})
deep = x
for _ in range(490):  # about as deep as pickle goes
    deep = [deep]
stock = io.BytesIO()
torch.save(deep, stock)
for _ in range(2):
    ckptfs.save(deep, PATH)
    with open(PATH, "rb") as file:
        assert contents(file) == contents(stock)


def with_metadata(version):
    state = collections.OrderedDict(a=x)
    state._metadata = {"version": version}
    return state


check_all(*[lambda v=v: with_metadata(v) for v in (1, 2, 300, "1", None)])


def with_attribute(value):
    tensor = x.detach()
    tensor.ours = value
    return tensor


check_all(lambda: x, lambda: with_attribute(1), lambda: with_attribute("2"))


class Ours(dict):
    pass


check_all(
    lambda: {"x": x},
    lambda: Ours(x=x),
    lambda: {"x": x, "o": numpy.float64(1)},
    lambda: {"x": x, "o": numpy.float64(2)},
    lambda: {"x": x, "o": numpy.arange(3)},
    lambda: {"x": x, "o": numpy.arange(1, 4)},
    lambda: {"x": x, "o": torch.Size((2,))},
    lambda: {"x": x, "o": (2,)},
)

# --- two storages of the same memory, as other types: torch.save refuses these, but no others ---
a, b = numpy.zeros(5000, dtype="f4"), numpy.zeros(5000, dtype="i4")
check({"a": torch.from_numpy(a), "b": torch.from_numpy(b)})
check({"a": torch.from_numpy(a), "b": torch.from_numpy(b)})
try:
    ckptfs.save({"a": torch.from_numpy(a), "b": torch.from_numpy(a.view("i4"))}, PATH)
except RuntimeError as error:
    assert "as different types" in str(error)
else:
    raise AssertionError

# --- settings of torch, and arguments ---
config = torch.utils.serialization.config
for _ in range(2):
    with config.patch({"save.storage_alignment": 4096}):
        check_all(lambda: {"x": x, "n": 1}, lambda: {"x": x, "n": 2})
    check_all(lambda: {"x": x, "n": 1}, lambda: {"x": x, "n": 2})
    with config.patch({"save.compute_crc32": False}):
        for n in 1, 2, 2:
            ckptfs.save({"x": x, "n": n}, PATH)
            assert torch.load(PATH)["n"] == n
    check_all(lambda: {"x": x, "n": 1}, lambda: {"x": x, "n": 2})
for protocol in 2, 3, 4, 2:
    for n in 1, 2:
        ckptfs.save({"x": x, "n": n}, PATH, pickle_protocol=protocol)
        stock = io.BytesIO()
        torch.save({"x": x, "n": n}, stock, pickle_protocol=protocol)
        with open(PATH, "rb") as file:
            assert contents(file) == contents(stock), protocol

# --- what is kept is bounded, and keeps no tensor alive ---
import weakref

gone = torch.randn(100, 100)
watch = weakref.ref(gone)
for i in range(40):
    check({f"key {i}": gone, "n": i})
assert len(reuse._plans) == 16
del gone
session.barrier(landed=True)
assert watch() is None


# --- several threads, each with a structure of its own ---
def run(number):
    state = {"x": torch.full((100, 100 + number), float(number)), "n": number}
    for i in range(30):
        state["n"] = 1000 + i
        ckptfs.save(state, mount.mnt + f"/t{number}.pt")
        got = torch.load(mount.mnt + f"/t{number}.pt")
        if got["n"] != 1000 + i or not torch.equal(got["x"], state["x"]):
            wrong.append((number, i))


wrong = []
threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
assert not wrong, wrong
session.close()
mount.umount()
