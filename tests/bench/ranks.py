# SPDX-License-Identifier: MIT
"""A training job of several ranks on one node that saves after each iteration (iterations.py runs
it).

usage: ranks.py MIB RANKS

The program starts RANKS - 1 more of itself. They train the model of trainer.py, of which each rank
has a part (fully_shard), and AdamW's state; both have MIB in all. Rank 0 says "ready" and how much
it is. Then each line on stdin is a JSON list, answered by a line of JSON:

  ["run", HOW, DIR, LOADED, ITERATIONS, S]
      {"total": S, "blocked": S, "longest": S, "rest": S}: so many iterations, which compute for
      about S without saves, with a save after each of them to DIR. `total` is from the first one
      until all checkpoints are durable, which takes `rest` after the last one. `blocked` is how
      long a save keeps the slowest rank from training, at the median, `longest` at most: the call,
      with the wait for the save before where the framework asks for that, and the wait before the
      next update. The first save comes before all of that and is not counted. At the end each rank
      loads the last checkpoint by way of LOADED, and the program fails if that is not what was
      saved. DIR is in a mount of ckptfs unless DIR is LOADED.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time

# The daemon reads a process's rank where exec has put it: enter() does one.
os.environ["WORLD_SIZE"] = os.environ["LOCAL_WORLD_SIZE"] = sys.argv[2]

import trainer

trainer.enter("torch", "torch_checkpointing")

import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.fsdp import fully_shard

from torch_checkpointing_async import TorchCheckpointingAsync

import ckptfs
import ckptfs.dcp

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Job(trainer.Job):
    def shard(self) -> None:
        if WORLD == 1:
            return
        for layer in self.model:
            fully_shard(layer)
        fully_shard(self.model)


# --- ways to save: begin(state, path), after which training goes on; finish() waits for it ---


class Nothing:
    suffix = ""

    def begin(self, state: dict, path: str) -> None:
        pass

    def finish(self) -> None:
        pass

    def load(self, state: dict, path: str) -> dict:
        trainer.load_dcp(state, path)
        return state

    def close(self, path: str) -> None:
        pass


class Lazily(Nothing):
    """By ckptfs.dcp.Writer: a save need not wait for the one before."""

    def begin(self, state: dict, path: str) -> None:
        trainer.save_dcp_lazily(state, path)

    def close(self, path: str) -> None:
        trainer.close(None, path)


class OneFile(Lazily):
    """By ckptfs.save: of one rank."""

    suffix = ".pt"

    def begin(self, state: dict, path: str) -> None:
        ckptfs.save(state, path)

    def load(self, state: dict, path: str) -> dict:
        return trainer.load_torch(state, path)


class Under(Nothing):
    """One save at a time goes on beside the training."""

    under_way = None

    def begin(self, state: dict, path: str) -> None:
        self.finish()
        self.under_way = self.start(state, path)

    def finish(self) -> None:
        if self.under_way:
            self.under_way.result()
        self.under_way = None


class DcpAsync(Under):
    """In a thread, whose collectives need a group of their own."""

    group = None

    def start(self, state: dict, path: str):
        DcpAsync.group = DcpAsync.group or dist.new_group(backend="gloo")
        return checkpoint.async_save(
            state, storage_writer=self.writer(path), process_group=self.group
        )

    def writer(self, path: str):
        return checkpoint.FileSystemWriter(path)


class LazilyAsync(DcpAsync, Lazily):
    """By ckptfs.dcp.Writer, too: the ranks agree on who saves what while training goes on."""

    def begin(self, state: dict, path: str) -> None:
        DcpAsync.begin(self, state, path)

    def writer(self, path: str):
        return ckptfs.dcp.Writer(path)


class TorchCheckpointing(Under):
    """In a process beside each rank. All ranks wait for the rename of rank 0."""

    manager = None

    def start(self, state: dict, path: str):
        package = TorchCheckpointingAsync()
        self.manager = self.manager or package.manager(os.path.dirname(path), package.saver)
        return self.manager.save(path, state)

    def finish(self) -> None:
        super().finish()
        dist.barrier()

    def load(self, state: dict, path: str) -> dict:
        return dict(self.manager.load(path, into=state))

    def close(self, path: str) -> None:
        self.manager.close()


WAYS = {
    "none": Nothing,
    "torch-lazy": OneFile,
    "dcp-lazy": Lazily,
    "dcp-thread-lazy": LazilyAsync,
    "dcp-thread": DcpAsync,
    "torch_checkpointing": TorchCheckpointing,
}


# --- a run ---


def of_all(value) -> list:
    """What each rank has."""
    values = [None] * WORLD
    dist.all_gather_object(values, value)
    return values


class Run:
    def __init__(self, job: Job, how: str, directory: str, mounted: bool) -> None:
        self.job, self.directory, self.mounted = job, directory, mounted
        self.way, self.paths = WAYS[how](), []
        self.blocked: list[float] = []  # for each save

    def iterate(self) -> None:
        self.job.compute()
        start = time.monotonic()
        ckptfs.barrier()
        if self.blocked:
            self.blocked[-1] += time.monotonic() - start
        self.job.update()
        state = self.job.state()
        self.paths.append(os.path.join(self.directory, f"step-{self.job.steps}{self.way.suffix}"))
        start = time.monotonic()
        self.way.begin(state, self.paths[-1])
        self.blocked.append(time.monotonic() - start)

    def make_durable(self) -> None:
        self.way.finish()
        if RANK == 0 and type(self.way) is not Nothing:
            for path in self.paths:
                if self.mounted:
                    ckptfs.wait(path, timeout=trainer.LIMIT_S)
                else:
                    trainer.sync(path)
        dist.barrier()

    def go(self, iterations: int) -> dict:
        self.iterate()
        self.make_durable()
        self.blocked, self.paths = [], []
        start = time.monotonic()
        for _ in range(iterations):
            self.iterate()
        trained = time.monotonic()
        self.make_durable()
        end = time.monotonic()
        blocked = [max(each) for each in zip(*of_all(self.blocked))]
        return {
            "total": end - start,
            "rest": end - trained,
            "blocked": statistics.median(blocked),
            "longest": max(blocked),
        }

    def verify(self, directory: str) -> None:
        if type(self.way) is Nothing:
            return
        state = self.job.state()
        path = os.path.join(directory, os.path.basename(self.paths[-1]))
        loaded = self.way.load(trainer.empty(state), path)
        if trainer.digest(loaded) != trainer.digest(state):
            sys.exit(f"rank {RANK}: {path}: what is loaded is not what was saved")


def run(job: Job, how: str, top: str, loaded: str, iterations: int, seconds: float) -> dict:
    job.calibrate(seconds / iterations)
    job.tokens = max(of_all(job.tokens))
    directory = os.path.join(top, "run")
    os.makedirs(directory, exist_ok=True)
    training = Run(job, how, directory, loaded != top)
    took = training.go(iterations)
    training.verify(os.path.join(loaded, "run"))
    training.way.close(directory)
    dist.barrier()
    if RANK == 0:
        shutil.rmtree(directory)
    return took


def told(line: str | None) -> list | None:
    """What rank 0 was told; None: nothing more comes."""
    words = [json.loads(line) if line else None]
    dist.broadcast_object_list(words)
    return words[0]


def main() -> None:
    others = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank)),
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        for rank in range(1, WORLD if RANK == 0 else 0)
    ]
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    job = Job(int(sys.argv[1]) * trainer.MIB)
    if RANK == 0:
        print("ready", job.bytes, flush=True)
    while words := told(sys.stdin.readline() if RANK == 0 else None):
        took = run(job, *words[1:])
        if RANK == 0:
            print(json.dumps(took), flush=True)
    dist.destroy_process_group()
    sys.exit(max([abs(other.wait()) for other in others], default=0))


if __name__ == "__main__":
    main()
