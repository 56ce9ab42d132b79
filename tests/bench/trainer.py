# SPDX-License-Identifier: MIT
"""A training job of one rank that saves and loads when it is told to (models.py runs it, bench.py measures with it).

usage: trainer.py MIB

It trains a model of transformer blocks with AdamW, once, so that model and optimizer have MIB in all, and
says "ready" and how much it is. Then each line on stdin is a JSON list, answered by a line of JSON:

  ["save", HOW, PATH, MOUNTED]   {"blocked": S, "durable": S}: training stands still; until it is durable (committed)
  ["load", HOW, PATH]            {"seconds": S}

It goes to the environment of make check-frameworks first, and exits with 77, saying why, where there is none to be had.
"""
import json
import os
import sys
import time

BENCH = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(BENCH), "frameworks"))

# pylint: disable=wrong-import-position
from harness import enter

enter("torch")

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

MIB = 1 << 20
WIDTH = 1024
STATE_XATTR = "user.ckptfs.state"
LIMIT_S = 300


def train(target: int) -> dict:
    """The state after one step of a model that is as deep as it takes."""
    torch.manual_seed(1)
    blocks = []
    while not blocks or 3 * size_of(block.state_dict() for block in blocks) < target:
        blocks.append(nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH))
    model = nn.Sequential(*blocks)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 1, WIDTH)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state, "step": 1}


def size_of(states) -> int:
    return sum(tensor.nbytes for state in states for tensor in state.values())


# --- saves: each begins one and returns what waits for its end, beside which training goes on ---

def nothing() -> None:
    pass


def save_torch(state: dict, path: str):
    torch.save(state, path)
    return nothing


def save_torch_fsync(state: dict, path: str):
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    return nothing


def save_dcp(state: dict, path: str):
    checkpoint.save(state, checkpoint_id=path)
    return nothing


def save_dcp_async(how: AsyncCheckpointerType):
    def begin(state: dict, path: str):
        return checkpoint.async_save(state, checkpoint_id=path, async_checkpointer_type=how).result
    return begin


SAVES = {"torch": save_torch, "torch-fsync": save_torch_fsync, "dcp": save_dcp,
         "dcp-thread": save_dcp_async(AsyncCheckpointerType.THREAD),
         "dcp-process": save_dcp_async(AsyncCheckpointerType.PROCESS)}


def load_dcp(state: dict, path: str) -> None:
    checkpoint.load(state, checkpoint_id=path)


LOADS = {"torch": lambda _, path: torch.load(path, weights_only=True), "dcp": load_dcp}


# --- durable ---

def sync(path: str) -> None:
    """A file, or a directory with all in it; and the name of it."""
    names = [path, os.path.dirname(path)]
    if os.path.isdir(path):
        names += [os.path.join(path, name) for name in os.listdir(path)]
    for name in names:
        descriptor = os.open(name, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def wait_committed(path: str) -> None:
    end = time.monotonic() + LIMIT_S
    while os.getxattr(path, STATE_XATTR) != b"committed":
        if time.monotonic() > end:
            sys.exit(f"{path} is not committed after {LIMIT_S} s")
        time.sleep(0.005)


def save(state: dict, how: str, path: str, mounted: bool) -> dict:
    start = time.monotonic()
    wait = SAVES[how](state, path)
    blocked = time.monotonic() - start
    wait()
    (wait_committed if mounted else sync)(path)
    return {"blocked": blocked, "durable": time.monotonic() - start}


def load(state: dict, how: str, path: str) -> dict:
    start = time.monotonic()
    LOADS[how](state, path)
    return {"seconds": time.monotonic() - start}


def main() -> None:
    dist.init_process_group("gloo")
    state = train(int(sys.argv[1]) * MIB)
    file_bytes = size_of([state["model"], *state["optimizer"]["state"].values()])
    print("ready", file_bytes, flush=True)
    for line in sys.stdin:
        verb, *words = json.loads(line)
        print(json.dumps({"save": save, "load": load}[verb](state, *words)), flush=True)


if __name__ == "__main__":
    main()
