# SPDX-License-Identifier: MIT
"""The rows on views: one tensor that eight files have in parts is read whole, through a mount; and
what other programs do to make the same files (converted.py)."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import time
from typing import Callable

from models import VENV_PYTHON, has_torch
from processes import HERE, NotMeasured, command, daemon_pid, memory_mib, started
from rows import Row, rate
from setting import MIB, Bench

PARTS = 8
WIDTH = 8192  # elements of a row: in columns, the runs of a part are 4 KiB long


def make_parts(bench: Bench, columns: bool) -> str:
    """The files, as DCP's writer for Hugging Face cuts them, past all mounts; their directory."""
    name = "columns" if columns else "shards"
    top = os.path.join(bench.backing, name)
    if os.path.exists(top):
        return name
    os.mkdir(top)
    rows = bench.file_bytes // (4 * WIDTH)
    shape = [rows, WIDTH // PARTS] if columns else [rows // PARTS, WIDTH]
    size = 4 * shape[0] * shape[1]
    for nr in range(PARTS):
        at = [0, nr * shape[1]] if columns else [nr * shape[0], 0]
        sharding = {"w": {"saved_offsets": at, "global_shape": [rows, WIDTH]}}
        header = json.dumps(
            {
                "__metadata__": {"DCP_SHARDING_INFO": json.dumps(sharding)},
                "w": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]},
            }
        ).encode()
        path = os.path.join(top, f"shard-{nr:05}-model-00001-of-00001.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            for _ in range(size // MIB):
                file.write(os.urandom(4096) * 256)
    bench.settle()
    return name


def sample_view(columns: bool) -> Callable[[Bench, str], dict]:
    """A copy of the view, or of all the files that it is made of, into memory. The mount is fresh,
    and the pages of the backing are warm."""

    def sample(bench: Bench, side: str) -> dict:
        name = make_parts(bench, columns)
        with bench.side("tmpfs") as memory, bench.side("ckptfs") as path:
            to = os.path.join(memory, "copy")
            unit = os.path.join(path, name)
            files = [unit + "/.view/safetensors/model.safetensors"]
            if side != "ckptfs":
                files = [os.path.join(unit, one) for one in sorted(os.listdir(unit))]
            os.mkdir(to)
            start = time.monotonic()
            command(["cp", *files, to])
            seconds = time.monotonic() - start
            size = sum(os.path.getsize(os.path.join(to, one)) for one in os.listdir(to))
            shutil.rmtree(to)
            return rate((seconds, size), MIB)

    return sample


# --- a mount ---

FIRST = "/.view/safetensors/model.safetensors"
STEPS, STEP_BYTES = 40, 16 * MIB


def sample_first(bench: Bench, _side: str) -> dict:
    """From the first look at a view on a fresh mount to the bytes of its first tensor."""
    name = make_parts(bench, False)
    with bench.side("ckptfs") as path:
        start = time.monotonic()
        with open(os.path.join(path, name) + FIRST, "rb", 0) as file:
            (size,) = struct.unpack("<Q", file.read(8))
            file.seek(8 + size)
            found = file.read(MIB)
        assert len(found) == MIB
        return {"value": time.monotonic() - start}


def sample_view_memory(bench: Bench, _side: str) -> dict:
    """How much the daemon grows while a view of all is read."""
    name = make_parts(bench, True)
    with bench.side("ckptfs") as path:
        os.listdir(os.path.join(path, name, ".view", "safetensors"))
        pid = daemon_pid(path)
        before = memory_mib(pid)["VmRSS"]
        file = os.path.join(path, name) + FIRST
        command(["dd", f"if={file}", "of=/dev/null", "bs=1M"])
        return {"value": memory_mib(pid)["VmRSS"] - before}


def _steps() -> float:
    """The median time of a step of something that computes, on one CPU."""
    program = (
        "import hashlib, os, statistics, time\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        f"data, found = bytes({STEP_BYTES}), []\n"
        f"for _ in range({STEPS}):\n"
        "    start = time.monotonic()\n"
        "    hashlib.sha256(data).digest()\n"
        "    found.append(time.monotonic() - start)\n"
        "print(statistics.median(found))\n"
    )
    return float(command([sys.executable, "-c", program]))


def sample_beside(bench: Bench, side: str) -> dict:
    """A step on one CPU, alone or beside a program that reads a view again and again, the pages of
    which are dropped each time. What reads, and the daemon, have the other CPUs."""
    cpus = os.sched_getaffinity(0)
    if len(cpus) < 2:
        raise NotMeasured("it takes two CPUs")
    name = make_parts(bench, False)
    with bench.side("ckptfs") as path:
        free = ",".join(map(str, sorted(cpus)[1:]))
        command(["taskset", "-a", "-p", "-c", free, str(daemon_pid(path))])
        if side != "ckptfs":
            return {"value": _steps() * 1000}
        file = os.path.join(path, name) + FIRST
        loop = (
            "import os, sys\n"
            "fd = os.open(sys.argv[1], os.O_RDONLY)\n"
            "while True:\n"
            f"    while os.read(fd, {MIB}):\n"
            "        pass\n"
            "    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)\n"
            "    os.lseek(fd, 0, os.SEEK_SET)\n"
        )
        with started(["taskset", "-c", free, sys.executable, "-c", loop, file]):
            return {"value": _steps() * 1000}


# --- other programs ---


def sample_converted(how: str) -> Callable[[Bench, str], dict]:
    """Copies a model as Hugging Face files into memory: from a view on a fresh mount; or made of
    the checkpoint beside it, past all mounts, and then copied."""

    def sample(bench: Bench, side: str) -> dict:
        if not has_torch():
            raise NotMeasured(f"no PyTorch in {VENV_PYTHON} (make check-frameworks installs it)")
        made = {"merge": "make-dcp", "consolidate": "make-shards"}[how]
        program = [VENV_PYTHON, os.path.join(HERE, "converted.py")]
        unit, out = os.path.join(bench.backing, made), os.path.join(bench.backing, "converted")
        if not os.path.exists(unit):
            command([*program, made, unit, str(bench.file_bytes // MIB)])
            bench.settle()
        command(["sh", "-c", 'cat "$0"/* "$0"/.metadata 2>/dev/null | wc -c', unit])
        with bench.side("tmpfs") as memory, bench.side("ckptfs") as path:
            seconds = 0.0
            if side == "ckptfs":
                out = os.path.join(path, made, ".view", "strip=model.,shape=inferred")
            else:
                os.mkdir(out)
                seconds = float(command([*program, how, unit, out]).split()[-1])
            start = time.monotonic()
            command(["sh", "-c", 'cp "$0"/*.safetensors "$1"', out, memory])
            seconds += time.monotonic() - start
            command(["sh", "-c", 'rm "$0"/*.safetensors', memory])
        if side != "ckptfs":
            shutil.rmtree(out)
            bench.settle()
        return {"value": seconds}

    return sample


def view_rows() -> list[Row]:
    return [
        Row(
            "view",
            "cp of a view of 8 files, cut by rows",
            "MiB/s",
            ["ckptfs", "cp of the files"],
            sample_view(False),
            goal=0.8,
        ),
        Row(
            "view-columns",
            "the same, cut by columns",
            "MiB/s",
            ["ckptfs", "cp of the files"],
            sample_view(True),
            goal=0.5,
        ),
        Row(
            "view-first",
            "first tensor of a view, from the first look",
            "s",
            ["ckptfs"],
            sample_first,
            aim=0.2,
        ),
        Row(
            "view-memory",
            "daemon, while a view is read",
            "MiB",
            ["ckptfs"],
            sample_view_memory,
            aim=64,
            once=True,
        ),
        Row(
            "view-beside",
            "step of a program beside a reader of a view",
            "ms",
            ["ckptfs", "alone"],
            sample_beside,
            goal=1.03,
            smaller=True,
        ),
        Row(
            "view-merge",
            "cp of the model in a checkpoint of DCP, as Hugging Face has it",
            "s",
            ["ckptfs", "dcp_to_torch_save, save_file"],
            sample_converted("merge"),
            goal=0.1,
            smaller=True,
        ),
        Row(
            "view-consolidate",
            "the same of shards that DCP's writer has left",
            "s",
            ["ckptfs", "DCP's consolidation"],
            sample_converted("consolidate"),
            goal=0.33,
            smaller=True,
        ),
    ]
