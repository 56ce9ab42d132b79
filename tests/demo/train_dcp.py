# SPDX-License-Identifier: MIT
"""A training script that saves each 5th step with torch.distributed.checkpoint, until it is told to
end by SIGTERM.

usage: train_dcp.py DIR

An ordinary one, which knows of no ckptfs. It keeps ten checkpoints, and prints which it has
saved.
"""

import os
import shutil
import signal
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch import nn

WIDTH, EVERY, KEPT = 512, 5, 10


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def main(directory: str) -> None:
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    warnings.simplefilter("ignore")  # that it is alone
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    step, kept = 0, []
    while not ended:
        step += 1
        batch = torch.randn(1024, WIDTH)
        (model(batch) - batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % EVERY:
            continue
        path = f"{directory}/step-{step}"
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        dcp.save(state, checkpoint_id=path)
        print("saved", step, flush=True)
        kept.append(path)
        if len(kept) > KEPT:
            shutil.rmtree(kept.pop(0))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    main(sys.argv[1])
