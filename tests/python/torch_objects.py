#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""An object that was serialised ahead is saved as it was then, once, by ckptfs.save, ckptfs.dcp and
any other save; its bytes are captured lazily. What its function raises, the save raises."""

import io
import os
import pickle
import threading

from lazily import TMP, Said

import torch
import torch.distributed as dist
from torch.distributed import checkpoint

from harness.mount import Mount

import ckptfs
from ckptfs import dcp

SAMPLES = [os.urandom(10_000) for _ in range(1000)]
mount = Mount({"host_cache_size": "64M", "capture_check": "all"})
said = Said()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
state = {"step": 0, "samples": SAMPLES}
called = []
gate = threading.Event()


def make():
    called.append(threading.current_thread())
    assert gate.wait(60)
    return dict(state)


def saved(obj):
    file = io.BytesIO()
    torch.save(obj, file)
    return file.getvalue()


def content(path):
    with open(path, "rb") as file:
        return file.read()


# Made in a thread, at the time of prepare, and written as torch.save writes it.
loader = ckptfs.register_object(make)
loader.prepare()  # returns, though make has not
gate.set()
loader.wait()
want, state["step"] = saved(state), 1
path = mount.mnt + "/one.pt"
before = ckptfs.session_of(path).stats().captured_bytes
ckptfs.save(loader, path)
ckptfs.wait(path)
assert len(called) == 1 and called[0] is not threading.main_thread()
assert content(path) == want and torch.load(path) == dict(state, step=0)
captured = ckptfs.session_of(path).stats().captured_bytes - before
assert captured > 9_000_000, f"{captured} bytes were captured lazily"

# Once: the next save, for which nothing was prepared, has what is now.
ckptfs.save(loader, mount.mnt + "/two.pt")
assert called[1] is threading.main_thread()
assert torch.load(mount.mnt + "/two.pt") == state

# The last prepare counts. A small object is written without captures.
small = ckptfs.register_object(lambda: state["step"])
small.prepare()
small.wait()
state["step"] = 2
small.prepare()
ckptfs.save(small, mount.mnt + "/small.pt")
assert torch.load(mount.mnt + "/small.pt") == 2


# What make raises, nobody has to look for.
def failing():
    raise LookupError("no such state")


broken = ckptfs.register_object(failing)
for ahead in (True, False):
    if ahead:
        broken.prepare()
    try:
        ckptfs.save(broken, mount.mnt + "/broken.pt")
        raise AssertionError("nothing was raised")
    except LookupError as error:
        assert "no such state" in str(error)
assert not os.path.exists(mount.mnt + "/broken.pt")

# In a child after fork there is no thread that makes it.
gate.clear()
loader.prepare()
child = os.fork()
if child == 0:
    gate.set()
    os._exit(pickle.loads(pickle.dumps(loader)) != state)
assert os.waitpid(child, 0)[1] == 0
gate.set()

# As a value of a state_dict of DCP, by our writer and by its own, in its thread too.
for name, writer in (
    ("ours", dcp.Writer(mount.mnt + "/ours")),
    ("its", checkpoint.FileSystemWriter(mount.mnt + "/its")),
    ("elsewhere", dcp.Writer(TMP + "/elsewhere")),
    ("in-thread", dcp.Writer(mount.mnt + "/in-thread")),
):
    loader.prepare()
    loader.wait()
    step, state["step"] = state["step"], state["step"] + 1
    saving = {"weights": torch.ones(3), "loader": loader, "other": {"a word": "here"}}
    if name == "in-thread":
        checkpoint.async_save(saving, storage_writer=writer).result()
    else:
        checkpoint.save(saving, storage_writer=writer)
    got = {"weights": torch.zeros(3), "loader": None, "other": {"a word": ""}}
    checkpoint.load(got, storage_reader=checkpoint.FileSystemReader(writer.path))
    assert got["loader"] == dict(state, step=step), (name, got["loader"]["step"], step)
    assert torch.equal(got["weights"], torch.ones(3)) and got["other"] == {"a word": "here"}

# Within another object, and without a mount.
ckptfs.save({"loader": loader}, mount.mnt + "/within.pt")
assert torch.load(mount.mnt + "/within.pt", weights_only=False) == {"loader": state}
ckptfs.save(loader, TMP + "/elsewhere.pt")
assert torch.load(TMP + "/elsewhere.pt") == state
file = io.BytesIO()
ckptfs.save(loader, file)
assert file.getvalue() == saved(state)
assert ckptfs.latest(mount.mnt) and [line for line in said.lines if "no mount" in line]
ckptfs.session_of(mount.mnt).close()
mount.umount()
