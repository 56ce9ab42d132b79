# SPDX-License-Identifier: MIT
"""DeepSpeed: its config alone makes it lazy, by `datastates_ckpt`. The file `latest` names only
what is committed, so load_checkpoint goes on from there.

    torchrun --nproc-per-node 2 deepspeed_zero.py /ckpt/run STEPS
"""

import sys

import deepspeed
import torch

import ckptfs

CONFIG = {
    "train_micro_batch_size_per_gpu": 16,
    "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
    "zero_optimization": {"stage": 1},
    "datastates_ckpt": {"host_cache_size": 0.1, "parser_threads": 2, "pin_host_cache": True},
    "steps_per_print": 1 << 30,
}

directory, steps = sys.argv[1], int(sys.argv[2])
ckptfs.require(directory)  # an error now, if nothing is mounted there
if not torch.cuda.is_available():
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would compile one
deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo", verbose=False)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)[0]

found, _ = engine.load_checkpoint(directory)
if found and engine.global_rank == 0:
    print("resumed", engine.global_steps, flush=True)

while engine.global_steps < steps:
    torch.manual_seed((engine.global_steps + 1) * 1000 + engine.global_rank)
    batch = torch.randn(16, 256, device=engine.device)
    engine.backward((engine(batch) - batch).square().mean())
    engine.step()  # its optimizer's step begins with a barrier
    engine.save_checkpoint(directory)  # returns at once
    if engine.global_rank == 0:
        print("saved", engine.global_steps, flush=True)

if engine.global_rank == 0:
    print(f"weights {sum(p.double().sum().item() for p in engine.module.parameters())!r}")
engine.destroy()
