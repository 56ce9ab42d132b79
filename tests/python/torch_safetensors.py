#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""ckptfs.save_file writes what safetensors.torch.save_file writes, lazily; and leaves to that what
it alone can judge."""

import errno
import os

from lazily import TMP, Said, copy

import safetensors.torch
import torch

from harness.digest import digest
from harness.mount import Mount, must, wait

import ckptfs
from ckptfs import autoload, known

mount = Mount({"host_cache_size": "64M", "capture_check": "all"})
session = ckptfs.session_of(mount.mnt)
said = Said()
torch.manual_seed(5)
model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200))
session.register(model)


def read(path):
    with open(path, "rb") as file:
        return file.read()


whole = torch.randn(100, 100)
kinds = {
    "f64": whole.double(),
    "bf16": whole.bfloat16(),
    "bool": whole > 0,
    "u8": torch.arange(9, dtype=torch.uint8),
    "empty": torch.empty(0, 3),
    "zero": torch.tensor(1.5),
    "part": torch.randn(50, 100)[3:9],
    'näme "quoted"': torch.arange(5),
    "f8": whole.to(torch.float8_e4m3fn),
}
for tensors in kinds, dict(kinds, **model.state_dict()), model.state_dict(), {}:
    for metadata in None, {"format": "pt"}:
        before = session.stats().captures
        ckptfs.save_file(tensors, mount.mnt + "/a.safetensors", metadata)
        assert session.stats().captures - before == (1 if "0.weight" in tensors else 0)
        ckptfs.barrier()
        safetensors.torch.save_file(tensors, TMP + "/b.safetensors", metadata)
        ours, theirs = read(mount.mnt + "/a.safetensors"), read(TMP + "/b.safetensors")
        assert digest(safetensors.torch.load_file(mount.mnt + "/a.safetensors")) == digest(
            copy(tensors)
        )
        with safetensors.safe_open(mount.mnt + "/a.safetensors", "pt") as file:
            assert file.metadata() == metadata and sorted(file.keys()) == sorted(tensors)
        # the order of types is the library's own business
        assert ours == theirs or "f64" in tensors
assert not said.lines, said.lines
ckptfs.wait(mount.mnt + "/a.safetensors")
must("verify", mount.back + "/a.safetensors")

# What is none of its business, and what is wrong.
ckptfs.save_file(
    {"a": whole.to(torch.complex64)} if "complex64" not in known._TYPES else {},
    mount.mnt + "/c.safetensors",
)
assert "a is of type torch.complex64, which is not known here" in said.lines[-1]
for wrong in {"a": whole, "b": whole[:5]}, {"a": whole.t()}, {"a": whole.to_sparse()}:
    try:
        ckptfs.save_file(wrong, mount.mnt + "/d.safetensors")
    except (RuntimeError, ValueError):
        pass
    else:
        raise AssertionError

# As `python -m ckptfs run` replaces it.
autoload.enable_safetensors()
autoload.enable_safetensors()
before = session.stats().captures
safetensors.torch.save_file(model.state_dict(), mount.mnt + "/e.safetensors", {"format": "pt"})
assert session.stats().captures == before + 1
safetensors.torch.save_file(model.state_dict(), TMP + "/e.safetensors", {"format": "pt"})
ckptfs.barrier()
assert digest(safetensors.torch.load_file(mount.mnt + "/e.safetensors")) == digest(
    safetensors.torch.load_file(TMP + "/e.safetensors")
)

# One that was not written to its end is none: the head comes last.
write, at = os.pwritev, []


def failing(fd, views, off):
    if off == 0:
        raise OSError(errno.EIO, "as if")
    return write(fd, views, off)


os.pwritev = failing
try:
    ckptfs.save_file(dict(model.state_dict(), z=whole), mount.mnt + "/e.safetensors")
except OSError:
    pass
else:
    raise AssertionError
os.pwritev = write
ckptfs.barrier(landed=True)
wait(lambda: not mount.status()["pending"])
assert digest(safetensors.torch.load_file(mount.back + "/e.safetensors")) == digest(
    model.state_dict()
)
session.close()
mount.umount()
