#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""DCP's async_save in a thread with ckptfs.dcp.Writer copies nothing that is lazy, and a step waits
until the thread has handed that over: every byte is that of the save, however slow the thread is.
What is sent to another process is a copy."""

import contextlib
import os
import pickle
import shutil
import threading

from lazily import TMP, Said, copy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

from harness.digest import digest
from harness.mount import Mount, wait

import ckptfs
from ckptfs import dcp
from ckptfs import session as sessions

WIDTH = 300
mount = Mount({"host_cache_size": "64M", "capture_bw": "20M", "capture_check": "all"})
said = Said()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, WIDTH))
unknown = torch.zeros(WIDTH, WIDTH)
optimizer = torch.optim.AdamW(model.parameters())


def step():
    """Changes what only a step changes, and before that what changes anywhere."""
    unknown.add_(1)
    model(torch.randn(8, WIDTH)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.param_groups[0]["lr"] *= 0.9


def state():
    names = {"parameters": dict(model.named_parameters()), "buffers": dict(model.named_buffers())}
    moments = {str(i): one for i, one in enumerate(optimizer.state.values())}
    return dict(
        names,
        moments=moments,
        unknown=[unknown, "a word"],
        groups=[{"lr": optimizer.param_groups[0]["lr"]}],
    )


class Slow(dcp.Writer):
    """Its thread waits until it is told to go on, or the step does not wait for it."""

    def __init__(self, path):
        super().__init__(path)
        self.go = threading.Event()

    def write_data(self, plan, planner):
        assert self.go.wait(60)
        return super().write_data(plan, planner)


def read(path):
    got = {}
    checkpoint.state_dict_loader._load_state_dict(
        got,
        storage_reader=checkpoint.FileSystemReader(path),
        planner=checkpoint.default_planner._EmptyStateDictLoadPlanner(),
        no_dist=True,
    )
    return got


step()
ckptfs.session_of(mount.mnt)
step()
for i in range(3):
    path, now = f"{mount.mnt}/step-{i}", state()
    want = digest(copy(now))
    captures = ckptfs.session_of(mount.mnt).stats().captures
    writer = Slow(path)
    future = checkpoint.async_save(now, storage_writer=writer)
    assert len(sessions.before) == 1
    stepping = threading.Thread(target=step)
    stepping.start()
    wait(lambda i=i: unknown[0, 0] == i + 3)
    assert not future.done() and stepping.is_alive(), "the step did not wait"
    writer.go.set()
    stepping.join()
    future.result()
    assert ckptfs.session_of(mount.mnt).stats().captures - captures >= 6 and not sessions.before
    ckptfs.wait(path)
    assert digest(read(path)) == want, "other bytes than those that were saved"

# The thread captures behind the trainer's stream, not behind its own.
real = torch.cuda.current_stream, torch.cuda.stream, torch.cuda.is_initialized
entered = []
torch.cuda.current_stream, torch.cuda.is_initialized = lambda: "the trainer's", lambda: True
torch.cuda.stream = lambda stream: contextlib.nullcontext(entered.append(stream))
checkpoint.async_save(state(), storage_writer=dcp.Writer(mount.mnt + "/stream")).result()
torch.cuda.current_stream, torch.cuda.stream, torch.cuda.is_initialized = real
assert entered == ["the trainer's"] and not sessions.before, entered

# By hand.
writer = Slow(mount.mnt + "/by-hand")
future = checkpoint.async_save(state(), storage_writer=writer)
waiting = threading.Thread(target=ckptfs.barrier)
waiting.start()
waiting.join(0.5)
assert waiting.is_alive()
writer.go.set()
waiting.join()
future.result()


# A thread that fails keeps no step from being made.
class Failing(DefaultSavePlanner):
    def create_local_plan(self):
        raise ValueError("as if")


future = checkpoint.async_save(
    state(), storage_writer=dcp.Writer(mount.mnt + "/failing"), planner=Failing()
)
step()
assert "as if" in str(future.exception()) and not sessions.before and said.lines.pop() == dcp.LATE

# One that is too late fails: the tensors have changed.
dcp.HAND_OVER_S = 0.2
writer = Slow(mount.mnt + "/late")
future = checkpoint.async_save(state(), storage_writer=writer)
step()
writer.go.set()
assert dcp.LATE in str(future.exception()) and said.lines.pop() == dcp.LATE
assert not os.path.exists(mount.mnt + "/late/.metadata")

# Sent to a process: copies, and the step does not wait any longer than it takes to make them.
writer, now = dcp.Writer(mount.mnt + "/sent"), state()
staged = writer.stage(now)
assert (
    staged["parameters"]["0.weight"] is now["parameters"]["0.weight"]
    and staged["unknown"][0] is not unknown
)
sent = pickle.loads(pickle.dumps((staged, writer)))
want = digest(copy(now))
step()
assert (
    digest(sent[0]) == want
    and not sessions.before
    and sent[1].path == writer.path
    and "copies" in sent[1]._why_not()
)

shutil.rmtree(mount.mnt + "/late")

# Elsewhere it is DCP's own.
future = checkpoint.async_save(state(), storage_writer=dcp.Writer(TMP + "/plain"))
want = digest(copy(state()))
step()
future.result()
assert digest(read(TMP + "/plain")) == want
assert not [line for line in said.lines if "no mount" not in line], said.lines
ckptfs.session_of(mount.mnt).close()
mount.umount()
