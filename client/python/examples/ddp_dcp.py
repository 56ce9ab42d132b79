# SPDX-License-Identifier: MIT
"""DistributedDataParallel, saved by torch.distributed.checkpoint: the ranks share the writing, and
all go on from the same checkpoint, the newest that is committed.

    torchrun --nproc-per-node 2 ddp_dcp.py /ckpt/run STEPS
"""

import os
import shutil
import sys

import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

import ckptfs.dcp

directory, steps = sys.argv[1], int(sys.argv[2])
ckptfs.require(directory)  # an error now, if nothing is mounted there
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
)
optimizer = torch.optim.AdamW(model.parameters())

os.makedirs(directory, exist_ok=True)
found, begin = ckptfs.latest(directory, group=True), 0  # rank 0 looks, all get its answer
if found:
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0}
    checkpoint.load(state, storage_reader=ckptfs.dcp.Reader(found))
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    begin = state["step"]
    if rank == 0:
        print("resumed", begin, flush=True)

for step in range(begin + 1, steps + 1):
    torch.manual_seed(step * 1000 + rank)
    batch = torch.randn(16, 256)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()  # begins with a barrier: it waits until what was saved is captured
    optimizer.zero_grad()
    weights, moments = get_state_dict(model, optimizer)
    # no tensor is copied before it returns
    checkpoint.save(
        {"model": weights, "optimizer": moments, "step": step},
        storage_writer=ckptfs.dcp.Writer(f"{directory}/step-{step}"),
    )
    if rank == 0:
        print("saved", step, flush=True)
        shutil.rmtree(f"{directory}/step-{step - 3}", ignore_errors=True)

if rank == 0:
    print(f"weights {sum(p.double().sum().item() for p in model.parameters())!r}")
dist.destroy_process_group()
