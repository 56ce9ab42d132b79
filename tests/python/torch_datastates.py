#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""The engines of the package `datastates`, as their users call them: Kénotron, which names the
tensors of a file before it makes it; and the one that DeepSpeed wraps, which
frameworks/deepspeed_zero1_lazy.py has as a whole."""

import json
import os
import pickle

from lazily import TMP, copy, state_of

import torch

from harness.digest import digest
from harness.mount import Mount

import ckptfs
from datastates import CheckpointEngine, CkptEngine

mount = Mount(
    {
        "host_cache_size": "64M",
        "capture_bw": "20M",
        "capture_check": "all",
        "quiet_s": 2,
        "rules": [
            {
                "name": "kenotron",
                "kind": "file",
                "match": ["?*.datastates"],
                "done": [["all_closed", "quiet"]],
            }
        ],
    }
)
torch.manual_seed(6)
model = torch.nn.Linear(500, 500)
optimizer = torch.optim.AdamW(model.parameters())


def step():
    model(torch.randn(4, 500)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def save(engine, tensor, path, others=()):
    """As Kénotron's engine."""
    tensors = {"data": tensor, **{f"other{i}": t for i, t in enumerate(others)}}
    places, at = {}, 0
    for name, one in tensors.items():
        places[name] = [at, at + one.nbytes]
        at += one.nbytes
    header = json.dumps(places).encode()
    begin = 8 + len(header)
    engine.async_save(
        [("1.0", one.contiguous(), begin + places[name][0], path) for name, one in tensors.items()]
    )
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        file.seek(begin + at)
        file.write(pickle.dumps({"data": "TENSOR|data"}))
    return begin


for directory in mount.mnt, TMP:
    engine = CkptEngine(16 << 20, 0, 0)
    wanted = {}
    step()
    for i in range(3):
        for name, tensor in (
            ("weight", model.weight.detach()),
            ("moment", optimizer.state[model.weight]["exp_avg"]),
        ):
            path = f"{directory}/{i}-{name}.datastates"
            begin = save(engine, tensor, path, [torch.arange(10), torch.empty(0)])
            wanted[path] = tensor.clone(), begin
        step()
    engine.wait()
    for path, (want, begin) in wanted.items():
        got, other = torch.zeros(500, 500), torch.zeros(10, dtype=torch.int64)
        engine.load([(0, got, begin, path), (0, other, begin + want.nbytes, path)])
        assert torch.equal(got, want), path
        assert torch.equal(other, torch.arange(10))
        with open(path, "rb") as file:
            file.seek(begin + want.nbytes + 80)
            assert pickle.load(file) == {"data": "TENSOR|data"}
    engine.async_save([("1.0", model.weight, 0, directory + "/none/x.datastates")])
    step()
    try:
        engine.wait()
    except OSError:
        pass
    else:
        raise AssertionError
    engine.shutdown()
assert mount.metric("captures_total") >= 2, "nothing of it was lazy"

# The other one, alone: dicts as config, save, wait, load.
engine = CheckpointEngine({"host_cache_size": 0.01, "parser_threads": 1, "pin_host_cache": True}, 0)
for directory in mount.mnt, TMP:
    state = state_of(model, optimizer)
    want = digest(copy(state))
    assert engine.save(state, directory + "/a.pt")
    step()
    assert engine.wait() and engine.wait(persist=True)
    assert digest(engine.load(directory + "/a.pt", map_location="cpu")) == want
    assert digest(torch.load(directory + "/a.pt")) == want
assert os.getxattr(mount.mnt + "/a.pt", "user.ckptfs.state") in (b"durable", b"committed")
ckptfs.session_of(mount.mnt).close()
mount.umount()
