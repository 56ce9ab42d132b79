# SPDX-License-Identifier: MIT
"""A training script that saves each 2nd step, and goes on from the newest checkpoint that it finds.

usage: train_resume.py DIR MIB STEPS

An ordinary one, which knows of no ckptfs: linear layers with AdamW, MIB mebibytes of state
together. Seeded, and on one thread, so that each run comes to the same weights. It prints for how
long it has trained; the medians: for how long a save blocked, and how much longer the optimizer's
step behind one took than others did; and a sum of what it loads at the end.
"""

import ctypes
import glob
import hashlib
import re
import statistics
import sys
import time

import torch
from torch import nn

WIDTH, EVERY = 1024, 2
PER_LAYER = 12  # MiB: weights, and the two moments of each


def number_of(path: str) -> int:
    return int(re.findall(r"\d+", path)[-1])


def bytes_of(tensor):
    """PyTorch has them for NumPy alone, which it does not bring along."""
    tensor = tensor.contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def sum_of(path: str) -> str:
    digest = hashlib.sha256()
    state = torch.load(path)
    moments = [value for one in state["optimizer"]["state"].values() for value in one.values()]
    for tensor in [*state["model"].values(), *moments]:
        digest.update(bytes_of(tensor))
    return digest.hexdigest()


def main(directory: str, mib: int, steps: int) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(
        *[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(max(mib // PER_LAYER, 1))]
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    begin, saves, waits, others = 0, [], [], []
    found = max(glob.glob(f"{directory}/step-*.pt"), key=number_of, default=None)
    if found:
        state = torch.load(found)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["step"]
        print("resumed", begin, flush=True)
    started = time.perf_counter()
    for step in range(begin + 1, steps + 1):
        torch.manual_seed(step)
        batch = torch.randn(64, WIDTH)
        (model(batch) - batch).square().mean().backward()
        at = time.perf_counter()
        optimizer.step()
        if step > begin + 1:  # the first one makes the optimizer's state
            (waits if (step - 1) % EVERY == 0 else others).append(time.perf_counter() - at)
        optimizer.zero_grad()
        if step % EVERY == 0:
            print("saving", step, flush=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            at = time.perf_counter()
            torch.save(state, f"{directory}/step-{step}.pt")
            saves.append(time.perf_counter() - at)
    print(f"training {time.perf_counter() - started:.3f}")
    print("sum", sum_of(f"{directory}/step-{step}.pt"))
    print(f"blocked {statistics.median(saves):.3f}")
    if waits and others:
        print(f"longer {max(statistics.median(waits) - statistics.median(others), 0):.3f}")


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
