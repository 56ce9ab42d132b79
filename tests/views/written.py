#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 600
"""Views in the forms of DCP and NumPy, of all types of elements: torch and NumPy read them as they
were saved."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/frameworks"))
from harness import enter

enter("torch", "safetensors")
sys.path.insert(0, os.path.join(os.environ["SRC"], "client/python"))

import subprocess
import warnings

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from ckptfs.dcp import Reader

warnings.simplefilter("ignore")
os.chdir(os.environ["TEST_TMP"])
NAMES = """float32 bfloat16 float16 float64 int64 int32 int16 int8 uint8 bool complex64
float8_e4m3fn float8_e5m2 uint16 uint32 uint64"""


def made(kind, shape):
    tensor = torch.randn(shape) * 3
    if kind.is_floating_point or kind.is_complex:
        return tensor.to(kind)
    return tensor > 0 if kind == torch.bool else tensor.abs().to(torch.int64).to(kind)


def raw(tensor):
    return tensor.contiguous().flatten().view(torch.uint8)


def export(spec, out):
    command = [os.environ["CKPTFS"], "export", f"unit/.view/part=all,{spec}", out]
    subprocess.run(command, check=True)


torch.manual_seed(0)
state = {
    f"layer.{n}.w": made(getattr(torch, name), (5 + n, 3)) for n, name in enumerate(NAMES.split())
}
state |= {"s": torch.tensor(3.5), "empty": torch.empty(0, 4), "large": torch.randn(300, 1000)}
os.mkdir("unit")
torch.save(state, "unit/all.pt")
for nr in (1, 3, 40):
    out = f"dcp-{nr}"
    export(f"dcp,n={nr}", out)
    assert len(os.listdir(out)) == nr + 1
    for reader in (dcp.FileSystemReader(out), Reader(out)):
        found = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        dcp.load(found, storage_reader=reader)
        for name, tensor in state.items():
            assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
            assert torch.equal(raw(found[name]), raw(tensor)), (nr, name)
    dcp_to_torch_save(out, "whole.pt")
    whole = torch.load("whole.pt")
    assert set(whole) == set(state) and torch.equal(whole["large"], state["large"])

export("npy", "npy")
for name, tensor in state.items():
    found = np.load(f"npy/{name}.npy")
    assert found.shape == tuple(tensor.shape), name
    assert found.tobytes() == raw(tensor).numpy().tobytes(), name
    if tensor.dtype not in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        assert np.array_equal(found, tensor.numpy()), name
