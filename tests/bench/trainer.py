# SPDX-License-Identifier: MIT
"""A training job of one rank that saves and loads when it is told to (models.py runs it, bench.py
measures with it).

usage: trainer.py MIB

It trains a model of transformer blocks with AdamW, once, so that model and optimizer have MIB in
all, and says "ready" and how much it is. Then each line on stdin is a JSON list, answered by a line
of JSON:

  ["save", HOW, PATH, MOUNTED]
      {"blocked": S, "queued": S, "durable": S, "committed": S}: training stands still; it waits for
      a CPU in that time; until the save is durable; and committed. A save that is captured later
      has "captured", too: the training goes on with a step until then, whose update waits for the
      capture, which counts as blocked
  ["load", HOW, PATH]
      {"seconds": S}
  ["train", HOW, DIR, STEPS, EVERY, S]
      {"step": S}: how long a step takes that would take about S, with one core left free, and a
      save before each EVERY of them, which goes on already; HOW: none for no saves
  ["close", PATH]
      {}: nothing of this process is in that mount any more

It goes to the environment of make check-frameworks first, and exits with 77, saying why, where
there is none to be had.
"""

import json
import os
import sys
import time
import zlib

BENCH = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(BENCH), "frameworks"))

from harness import enter

enter("torch")
sys.path.insert(0, os.path.join(os.environ["SRC"], "client", "python"))
os.environ.setdefault("CKPTFS_LIB", os.path.join(os.environ["BUILD"], "lib"))

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

import ckptfs
import ckptfs.dcp

MIB = 1 << 20
WIDTHS, DEPTH = (1024, 512, 256), 12  # the widest that makes the model so deep
STATE_XATTR = "user.ckptfs.state"
LIMIT_S = 300


class Job:
    """A model that is as deep as it takes, after one step."""

    def __init__(self, target: int) -> None:
        torch.manual_seed(1)
        self.width = next(
            (width for width in WIDTHS if DEPTH * state_of(block(width)) <= target), WIDTHS[-1]
        )
        self.model = nn.Sequential(block(self.width))
        while state_of(self.model) < target:
            self.model.append(block(self.width))
        self.shard()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6)
        self.steps = 0
        self.tokens = 8
        self.step()
        self.saved = self.state()  # of all saves that are measured by themselves
        self.bytes = size_of([self.saved["model"], *self.saved["optimizer"]["state"].values()])

    def shard(self) -> None:
        """Of several ranks each has a part: see ranks.py."""

    def state(self) -> dict:
        model_state, optimizer_state = get_state_dict(self.model, self.optimizer)
        return {"model": model_state, "optimizer": optimizer_state, "step": self.steps}

    def compute(self) -> None:
        """The part of a step in which nothing that is saved changes."""
        self.model(torch.randn(self.tokens, 1, self.width)).square().mean().backward()

    def update(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1

    def step(self) -> None:
        self.compute()
        self.update()

    def calibrate(self, seconds: float) -> None:
        """How many tokens make a step so long."""
        if self.tokens == 8:
            self.step()
            start = time.monotonic()
            self.update()
            updated = time.monotonic()
            self.tokens = 64
            self.compute()
            each = (time.monotonic() - updated) / self.tokens
            self.tokens = max(16, int((seconds - (updated - start)) / each))
            self.update()


def block(width: int) -> nn.Module:
    return nn.TransformerEncoderLayer(width, 16, 4 * width)


def size_of(states) -> int:
    return sum(tensor.nbytes for state in states for tensor in state.values())


def state_of(model: nn.Module) -> int:
    """The bytes of the parameters and of AdamW's two moments."""
    return 3 * size_of([model.state_dict()])


# --- saves: each begins one and returns what waits for its end, beside which training goes on ---


def nothing() -> None:
    pass


def save_torch(state: dict, path: str):
    torch.save(state, path)
    return nothing


def save_lazily(state: dict, path: str):
    ckptfs.save(state, path)
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


def save_dcp_lazily(state: dict, path: str):
    checkpoint.save(state, storage_writer=ckptfs.dcp.Writer(path))
    return nothing


SAVES = {
    "torch": save_torch,
    "torch-lazy": save_lazily,
    "torch-fsync": save_torch_fsync,
    "dcp": save_dcp,
    "dcp-lazy": save_dcp_lazily,
    "dcp-lazy-async": save_dcp_lazily,
    "dcp-thread": save_dcp_async(AsyncCheckpointerType.THREAD),
    "dcp-process": save_dcp_async(AsyncCheckpointerType.PROCESS),
}


def load_dcp(state: dict, path: str) -> None:
    checkpoint.load(state, checkpoint_id=path)


def load_torch(_state: dict, path: str) -> dict:
    return torch.load(path, weights_only=True)


LOADS = {how: load_torch if how.startswith("torch") else load_dcp for how in SAVES}


def name_of(how: str, step: int) -> str:
    return f"step-{step}" + (".pt" if how.startswith("torch") else "")


# --- what was saved, and what is loaded ---


def digest(state):
    """The state, with a checksum in the place of each tensor."""
    if isinstance(state, torch.Tensor):
        state = getattr(state, "to_local", lambda: state)()  # of a DTensor, this rank's part
        return zlib.crc32(state.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    if isinstance(state, dict):
        return {key: digest(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [digest(each) for each in state]
    return state


def empty(state):
    """A state to load into that has the layout of @state and none of its values."""
    if isinstance(state, torch.Tensor):
        return torch.zeros_like(state)
    if isinstance(state, dict):
        return {key: empty(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(map(empty, state))
    return state


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


def wait_committed(path: str) -> tuple[float, float]:
    """When it was seen to be durable, and to be committed."""
    end, durable = time.monotonic() + LIMIT_S, 0.0
    while True:
        state, now = os.getxattr(path, STATE_XATTR), time.monotonic()
        if not durable and state in (b"durable", b"committed"):
            durable = now
        if state == b"committed":
            return durable, now
        if now > end:
            sys.exit(f"{path} is not committed after {LIMIT_S} s")
        time.sleep(0.005)


def compute_until_captured(job: Job, path: str) -> float:
    """The first part of a step, and more of that, if it is shorter; when all was captured."""
    start, session = time.monotonic(), ckptfs.session_of(path)
    captured = 0.0
    while not captured:
        job.compute()
        captured = 0.0 if session.stats().pending else time.monotonic() - start
    return captured


def queued() -> float:
    """For how long this thread has been ready to run and has had no CPU."""
    with open("/proc/thread-self/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9


def save(job: Job, how: str, path: str, mounted: bool) -> dict:
    before, start = queued(), time.monotonic()
    wait = SAVES[how](job.saved, path)
    took = {"blocked": time.monotonic() - start, "queued": queued() - before}
    if "-lazy" in how:
        took["captured"] = took["blocked"] + compute_until_captured(job, path)
        update = time.monotonic()
        ckptfs.barrier()
        took["blocked"] += time.monotonic() - update
    wait()
    if mounted:
        durable, committed = wait_committed(path)
    else:
        sync(path)
        durable = committed = time.monotonic()
    return dict(took, durable=durable - start, committed=committed - start)


def load(job: Job, how: str, path: str) -> dict:
    start = time.monotonic()
    LOADS[how](job.saved, path)
    return {"seconds": time.monotonic() - start}


def train(job: Job, how: str, directory: str, steps: int, every: int, seconds: float) -> dict:
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) - 1))
    job.calibrate(seconds)
    wait, start = nothing, 0.0
    for number in range(-every, steps):
        if number == 0:
            start = time.monotonic()
        if how != "none" and number % every == 0:
            wait()  # one at a time
            wait = SAVES[how](job.state(), os.path.join(directory, name_of(how, every + number)))
        job.step()
    took = time.monotonic() - start
    wait()
    torch.set_num_threads(threads)
    return {"step": took / steps}


def close(_job: Job, path: str) -> dict:
    session = ckptfs.session_of(path)
    session.barrier(landed=True)
    session.close()
    return {}


VERBS = {"save": save, "load": load, "train": train, "close": close}


def prepare(mib: int) -> Job:
    dist.init_process_group("gloo")
    return Job(mib * MIB)


def main() -> None:
    job = prepare(int(sys.argv[1]))
    print("ready", job.bytes, flush=True)
    for line in sys.stdin:
        verb, *words = json.loads(line)
        print(json.dumps(VERBS[verb](job, *words)), flush=True)


if __name__ == "__main__":
    main()
