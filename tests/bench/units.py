# SPDX-License-Identifier: MIT
"""The rows on checkpoints of many files: what it costs that they are committed as one."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
from typing import Callable

from processes import (
    CKPTFS,
    LIMIT_S,
    Failed,
    command,
    daemon_pid,
    is_idle,
    memory_mib,
    mount_status,
    started,
    wait_until,
)
from setting import FSLOAD, MIB, SMALL_CACHE, Bench

FILE_BYTES = 65536
COMMIT_FILES = 100
COMMITS, SYNCS = 5, 50  # of which the median counts
RANK = {"RANK": "0", "WORLD_SIZE": "1"}


def load(*words: object) -> float:
    """As the only rank of a job: the seconds."""
    return float(command([FSLOAD, *map(str, words)], env={**os.environ, **RANK}).split()[0])


def sample_unit(bench: Bench, side: str) -> dict:
    """The seconds of a save, until its last call returns: into one checkpoint, or as many of one
    file."""
    count = bench.unit_files
    with bench.side("ckptfs", count * MIB + SMALL_CACHE) as path:  # a chunk of the cache for each
        for name in ("unmeasured", "measured"):
            top = os.path.join(path, name)
            if side == "files":
                os.mkdir(top)
                seconds = load("save-files", top, count, FILE_BYTES)
            else:
                seconds = load("save-unit", top, count, FILE_BYTES)
            bench.quiesce("ckptfs")
    remove(bench, "unmeasured", "measured")
    return {"value": seconds}


def ended(bench: Bench, name: str) -> float:
    """When it was committed, by CLOCK_MONOTONIC."""
    with open(os.path.join(bench.mountpoint, ".ckptfs/trace.json"), encoding="utf-8") as file:
        spans = [
            event
            for event in json.load(file)["traceEvents"]
            if event["name"] == "commit"
            and event["args"]["path"] == name
            and event["args"]["state"] == "committed"
        ]
    if not spans:
        raise Failed(f"{name} is not committed")
    return (spans[-1]["ts"] + spans[-1]["dur"]) / 1e6


def durable_but_for_its_end(bench: Bench) -> bool:
    status = mount_status(bench.mountpoint)
    return bool(status.get("pending")) and all(
        entry.get("rule") and not entry.get("dirty_bytes") for entry in status["pending"]
    )


def save_unit(
    bench: Bench, name: str, count: int, size: int, before_end: Callable[[], None]
) -> float:
    """A checkpoint that is durable before its end comes; when that began, by CLOCK_MONOTONIC."""
    top = os.path.join(bench.mountpoint, name)
    with started(
        [FSLOAD, "end-unit", top, str(count), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **RANK},
    ) as process:
        if process.stdout.readline() == "ready\n":
            wait_until("its files are durable", lambda: durable_but_for_its_end(bench))
            bench.settle()
            before_end()
        said, wrong = process.communicate(timeout=LIMIT_S)
    if process.returncode != 0:
        raise Failed(wrong.strip() or "fsload end-unit failed")
    wait_until("it is committed", lambda: is_idle(mount_status(bench.mountpoint)))
    return float(said.split()[2])


def sample_commit(bench: Bench, side: str) -> dict:
    """Milliseconds from the end of a checkpoint that is durable but for that, until it is
    committed."""
    if side == "sync":
        return {"value": 1000 * load("sync", bench.backing, SYNCS, 4096)}
    with bench.side("ckptfs", 2 * COMMIT_FILES * MIB):
        names = [f"unit{number}" for number in range(COMMITS)]
        took = [
            -save_unit(bench, name, COMMIT_FILES, FILE_BYTES, lambda: None) + ended(bench, name)
            for name in names
        ]
    remove(bench, *names)
    return {"value": 1000 * statistics.median(took)}


def remove(bench: Bench, *names: str) -> None:
    for name in names:
        shutil.rmtree(os.path.join(bench.backing, name))
    bench.settle()


def peak_mib(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^VmHWM:\s+(\d+) kB", file.read(), re.M).group(1)) / 1024


def verify_mib(path: str) -> float:
    """The most memory that a verify of it takes."""
    with started(
        [CKPTFS, "verify", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"verify of {path}: exit status {process.returncode}")
    return usage.ru_maxrss / 1024


def sample_memory_unit(bench: Bench, side: str) -> dict:
    """What the daemon takes to commit, beyond what it had for the save; and all that a verify
    takes."""
    with bench.side(side) as path:
        pid = daemon_pid(path)
        memory = [memory_mib(pid)["VmRSS"]]
        save_unit(
            bench, "unit", bench.many_files, 16, lambda: memory.append(memory_mib(pid)["VmRSS"])
        )
        commit = peak_mib(pid) - memory[1]
    verify = verify_mib(os.path.join(bench.backing, "unit"))
    remove(bench, "unit")
    return {
        "value": max(commit, verify),
        "commit": commit,
        "verify": verify,
        "save": memory[1] - memory[0],
    }
