# SPDX-License-Identifier: MIT
"""Plain PyTorch: saves after each step, goes on from the newest committed checkpoint.

python plain.py /ckpt/run STEPS
"""

import os
import sys

import torch

import ckptfs

directory, steps = sys.argv[1], int(sys.argv[2])
ckptfs.require(directory)  # an error now, if nothing is mounted there
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
optimizer = torch.optim.AdamW(model.parameters())

os.makedirs(directory, exist_ok=True)
found, begin = ckptfs.latest(directory), 0
if found:
    state = ckptfs.load(found)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    begin = state["step"]
    torch.set_rng_state(state["random"])
    print("resumed", begin, flush=True)

for step in range(begin + 1, steps + 1):
    batch = torch.randn(16, 256)
    (model(batch) - batch).square().mean().backward()
    optimizer.step()  # begins with a barrier: it waits until what was saved is captured
    optimizer.zero_grad()
    path = f"{directory}/step-{step}.pt"
    ckptfs.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "random": torch.get_rng_state(),
        },
        path,
    )  # returns at once
    print("saved", step, flush=True)
    old = f"{directory}/step-{step - 3}.pt"
    if os.path.exists(old):
        os.unlink(old)

if begin < steps:
    ckptfs.wait(path)  # until the last one is kept
print(f"weights {sum(p.double().sum().item() for p in model.parameters())!r}")
