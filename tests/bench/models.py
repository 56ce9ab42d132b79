# SPDX-License-Identifier: MIT
"""The rows on real frameworks, unmodified, that save and load the state of a model in training."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Callable

from processes import BUILD, CKPTFS, HERE, LIMIT_S, SRC, Failed, NotMeasured, command, started
from rows import Row
from setting import MIB, SMALL_CACHE, Bench

sys.path.insert(0, os.path.join(SRC, "tests/helpers"))
from ports import free_ports

TRAINER = os.path.join(HERE, "trainer.py")
FIRST_SAVE = os.path.join(HERE, "first_save.py")
OBJECT_SAVE = os.path.join(HERE, "object_save.py")
VENV_PYTHON = os.path.join(BUILD, "frameworks", "venv", "bin", "python")
# Sides of the rows below: saves past the mount, and how trainings save, and where.
ASYNC = {"DCP async_save, thread": "dcp-thread", "DCP async_save, process": "dcp-process"}
TRAININGS = {
    "ckptfs": ("ckptfs", "torch-lazy"),
    "no saves": ("backing", "none"),
    "torch.save": ("backing", "torch"),
    "torch.save, mount": ("ckptfs", "torch"),
    "DCP async_save": ("backing", "dcp-thread"),
}
FIRST_BYTES = 16 << 10  # of a storage of first_save.py
TRAIN_STEPS, TRAIN_EVERY, TRAIN_STEP_S = 10, 5, 1.0
SKIPPED = 77  # the exit status of trainer.py where its packages cannot be had


class Trainer:
    """trainer.py or shaped.py as the only rank of a job, or ranks.py as rank 0."""

    def __init__(self, process: subprocess.Popen, said) -> None:
        self.process, self.said = process, said
        self.bytes = int(self._line().split()[1])

    def _line(self) -> str:
        line = self.process.stdout.readline()
        while line and not line.startswith(("ready", "{")):
            self.said.write(line)
            line = self.process.stdout.readline()
        if line:
            return line
        code = self.process.wait(LIMIT_S)
        self.said.seek(0)
        last = (self.said.read().strip().splitlines() or [f"exit status {code}"])[-1]
        name = os.path.basename(self.process.args[1])
        raise (NotMeasured if code == SKIPPED else Failed)(f"{name}: {last}")

    def ask(self, *words: object) -> dict:
        with contextlib.suppress(BrokenPipeError):  # its last words tell why
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
        return json.loads(self._line())


def job_environment(bench: Bench) -> dict:
    """Of rank 0 of a job of one rank."""
    if bench.args.quick and not has_torch():
        raise NotMeasured(
            f"no PyTorch in {os.path.dirname(os.path.dirname(VENV_PYTHON))}"
            " (a bench that is not quick, or make check-frameworks, installs it)"
        )
    return dict(
        os.environ,
        BUILD=BUILD,
        SRC=SRC,
        CKPTFS=CKPTFS,
        TEST_TMP=tempfile.mkdtemp(prefix="job-", dir=bench.work),
        TMPDIR=bench.work,
        RANK="0",
        WORLD_SIZE="1",
        LOCAL_RANK="0",
        LOCAL_WORLD_SIZE="1",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(free_ports(1)[0]),
    )


@contextlib.contextmanager
def start(bench: Bench, program: str, size: int, ranks: int) -> Iterator[Trainer]:
    env = job_environment(bench)
    bench.say("starting a job that trains a model (installs its packages, if they are not there)")
    with (
        tempfile.TemporaryFile("w+") as said,
        started(
            ["python3", program, str(size // MIB), str(ranks)],
            grace_s=30,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=env,
        ) as process,
    ):
        try:
            yield Trainer(process, said)
        finally:
            with contextlib.suppress(BrokenPipeError):
                # it ends, and with it the process that async_save has started
                process.stdin.close()


def has_torch() -> bool:
    try:
        command([VENV_PYTHON, "-c", "import torch"])
    except Failed:
        return False
    return True


def job_at(bench: Bench, program: str, size: int, ranks: int = 1) -> Trainer:
    """One for all rows: a model takes a while."""
    key = program, size, ranks
    if key not in bench.jobs:
        try:
            bench.jobs[key] = bench.until_end.enter_context(start(bench, *key))
        except NotMeasured as reason:
            bench.jobs[key] = reason
    if isinstance(bench.jobs[key], NotMeasured):
        raise bench.jobs[key]
    return bench.jobs[key]


def trainer(bench: Bench) -> Trainer:
    return job_at(bench, TRAINER, bench.state_bytes)


def name_of(how: str, step: int) -> str:
    return f"step-{step}" + (".pt" if how.startswith("torch") else "")


def save_and_remove(bench: Bench, side: str, path: str, how: str) -> dict:
    took = trainer(bench).ask("save", how, path, side == "ckptfs")
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    bench.quiesce(side)
    return took


def sample_save(how: str) -> Callable[[Bench, str], dict]:
    """The seconds for which the training stands still, and those until the checkpoint is
    durable."""

    def sample(bench: Bench, side: str) -> dict:
        job = trainer(bench)
        with bench.side(side, job.bytes + job.bytes // 4 + SMALL_CACHE) as top:
            for step in (1, 2):  # the first one is to warm up; see the top of bench.py
                took = save_and_remove(bench, side, os.path.join(top, name_of(how, step)), how)
        return {"value": took["blocked"], "durable": took["durable"]}

    return sample


def lazy_cache(job: Trainer) -> int:
    """Half of it is lent: all of a save fits there, and as much in the rest, which is flushed."""
    return 3 * job.bytes + SMALL_CACHE


def sample_lazy(bench: Bench, side: str) -> dict:
    """The milliseconds for which the training stands still: a lazy save and the barrier before the
    next update, or async_save."""
    if side in ASYNC:
        took = sample_save(ASYNC[side])(bench, "backing")
        return {"value": 1000 * took["value"]}
    job = trainer(bench)
    with bench.side(side, lazy_cache(job)) as top:
        for step in (1, 2):
            took = save_and_remove(bench, side, os.path.join(top, f"step-{step}.pt"), "torch-lazy")
        job.ask("close", top)
    return {"value": 1000 * took["blocked"], "captured": 1000 * took["captured"]}


def sample_process(
    program: str, numbers: tuple[int, int], size: int, keys: tuple[str, str]
) -> Callable[[Bench, str], dict]:
    """Both sides are of one process, which is new in each round. @numbers: what it is given, and
    what in a quick bench; a cache of @size bytes for each of that. @keys: what it prints for ckptfs
    and for the baseline."""
    took: dict[str, float] = {}

    def sample(bench: Bench, side: str) -> dict:
        if not took:
            number = numbers[bench.args.quick]
            with bench.side("ckptfs", number * size + SMALL_CACHE) as top:
                text = command(["python3", program, top, str(number)], env=job_environment(bench))
                bench.quiesce("ckptfs")
            took.update(json.loads(text.strip().splitlines()[-1]))
            return {"value": took[keys[side != "ckptfs"]], **took}
        value = took[keys[side != "ckptfs"]]
        took.clear()
        return {"value": value}

    return sample


def train(bench: Bench, side: str, how: str) -> dict:
    """The seconds of a step, of which every fifth comes after a save; the mount as large as a lazy
    save wants it."""
    job, quick = trainer(bench), bench.args.quick
    words = [how, None, *((2, 2, 0.02) if quick else (TRAIN_STEPS, TRAIN_EVERY, TRAIN_STEP_S))]
    with bench.side(side, lazy_cache(job)) as top:
        words[1] = os.path.join(top, "run")
        os.mkdir(words[1])
        took = job.ask("train", *words)
        if how == "torch-lazy":
            job.ask("close", top)
        bench.quiesce(side)
        shutil.rmtree(words[1])
        bench.quiesce(side)
    return {"value": took["step"]}


def sample_train(bench: Bench, side: str) -> dict:
    return train(bench, *TRAININGS[side])


def drop_pages(path: str) -> None:
    """What is read next comes from the storage."""
    names = (
        [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    )
    for name in names:
        descriptor = os.open(name, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def sample_load(how: str) -> Callable[[Bench, str], dict]:
    """The seconds of a load, of which nothing is in memory."""

    def sample(bench: Bench, side: str) -> dict:
        job = trainer(bench)
        name = name_of(how, 3)
        saved = os.path.join(bench.backing, name)
        if not os.path.exists(saved):
            job.ask("save", how, saved, False)
        drop_pages(saved)
        with bench.side(side) as path:
            return {"value": job.ask("load", how, os.path.join(path, name))["seconds"]}

    return sample


def model_rows() -> list[Row]:
    plain = ["ckptfs", "backing"]
    durable = {"durable": "  until durable"}

    def save(name: str, what: str, how: str, framework: str = "", goal: float | None = None) -> Row:
        return Row(
            name,
            what + ", blocked",
            "s",
            plain,
            sample_save(how),
            goal=goal,
            smaller=True,
            also=durable,
            framework=framework,
        )

    def load(name: str, what: str, how: str) -> Row:
        return Row(name, what + ", cold", "s", plain, sample_load(how), goal=1.1, smaller=True)

    return [
        save("torch", "torch.save", "torch", "torch.save", 0.8),
        save("torch-fsync", "torch.save, fsync", "torch-fsync"),
        save("dcp", "DCP save", "dcp", "DCP, save", 0.5),
        save("dcp-thread", "DCP async_save, thread", "dcp-thread", "DCP, async_save in a thread"),
        save(
            "dcp-process", "DCP async_save, process", "dcp-process", "DCP, async_save in a process"
        ),
        Row(
            "torch-lazy",
            "ckptfs.save and the barrier of the next step, blocked",
            "ms",
            ["ckptfs", *ASYNC],
            sample_lazy,
            goal=0.05,
            smaller=True,
            also={"captured": "  captured, while that (longer) step computes"},
        ),
        Row(
            "first-save",
            "first ckptfs.save of a process, 10^4 storages, blocked",
            "s",
            ["ckptfs", "a later save"],
            sample_process(FIRST_SAVE, (10_000, 1000), 4 * FIRST_BYTES, ("first", "later")),
            goal=3,
            smaller=True,
        ),
        Row(
            "objects",
            "ckptfs.save of 1 GiB of samples that was prepared, blocked",
            "s",
            ["ckptfs", "not prepared"],
            sample_process(OBJECT_SAVE, (1024, 64), 4 * MIB, ("ahead", "now")),
            smaller=True,
        ),
        Row(
            "train",
            "training step, one core free, ckptfs.save at each 5th",
            "s",
            list(TRAININGS),
            sample_train,
            goal=1.03,
            smaller=True,
            against="no saves",
        ),
        load("torch-load", "torch.load", "torch"),
        load("dcp-load", "DCP load", "dcp"),
    ]
