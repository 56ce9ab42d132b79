# SPDX-License-Identifier: MIT
"""The rows on tensors that are written by handle, and captured later (lazy.c does the work)."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Callable

from processes import BUILD, command
from rows import Row
from setting import MIB, Bench

SMALL = 20 << 10  # bytes of a small tensor
LAZY = os.path.join(BUILD, "tests", "bench", "lazy")


def ask(*words: object) -> dict:
    return json.loads(command([LAZY, *map(str, words)]))


def cache_size(bench: Bench, part: float = 1.1) -> int:
    """@part of a save."""
    return int(part * bench.save_bytes)


def clear(bench: Bench, side: str, directory: str) -> None:
    for name in os.listdir(directory):
        if name.endswith(".pt"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))
    bench.quiesce(side)


def run(bench: Bench, side: str, verb: str, *words: object, part: float = 1.1) -> dict:
    with bench.side(side, cache_size(bench, part)) as path:
        took = ask(verb, path, bench.save_bytes, *words)
        bench.quiesce(side)
        clear(bench, side, path)
    return took


def sample_returns(bench: Bench, side: str) -> dict:
    """From before the create to after the close."""
    return {
        "value": 1000 * run(bench, "ckptfs", "handles" if side == "ckptfs" else "bytes")["returns"]
    }


def sample_capture(bench: Bench, side: str) -> dict:
    """From before the create until the update barrier returns."""
    took = run(bench, "ckptfs", "handles")
    return {"value": took["bytes"] / MIB / took["captured" if side == "ckptfs" else "memcpy"]}


def sample_tight(bench: Bench, side: str) -> dict:
    """With a cache of half of it the capture waits for the flush, and for nothing else."""
    if side == "ckptfs":
        return {"value": run(bench, side, "handles", part=0.5)["captured"]}
    return {"value": run(bench, side, "durable")["durable"]}


def sample_many(bench: Bench, side: str) -> dict:
    """Eight processes at once: in small tensors, or as many bytes in large ones."""
    nr = bench.save_bytes // 8 // SMALL if side == "small" else 4
    return {"value": run(bench, "ckptfs", "many", 8, nr, part=1.5)["captured"]}


def sample_durable(bench: Bench, side: str) -> dict:
    took = run(bench, side, "handles" if side == "ckptfs" else "durable")
    return {"value": took["durable"]}


def sample_steps(milliseconds: int, steps: int) -> Callable[[Bench, str], dict]:
    """A step of a training loop, with a save at each, or none."""
    work: list[int] = []

    def sample(bench: Bench, side: str) -> dict:
        if not work:
            work.append(ask("calibrate", milliseconds)["work"])
        if side != "ckptfs":
            return {"value": ask("steps", "-", bench.save_bytes, steps, work[0])["step"]}
        took = run(bench, side, "steps", steps, work[0])
        return {"value": took["step"], "blocked": took["blocked"]}

    return sample


def lazy_rows(quick: bool) -> list[Row]:
    what = "save of 500 tensors by handle"
    return [
        Row(
            "lazy",
            f"{what}, create to close",
            "ms",
            ["ckptfs", "write"],
            sample_returns,
            goal=0.01,
            smaller=True,
        ),
        Row(
            "lazy-capture",
            "  captured, until the barrier returns",
            "MiB/s",
            ["ckptfs", "memcpy"],
            sample_capture,
            goal=0.9,
        ),
        Row(
            "lazy-tight",
            "  the same with a cache of half of it; write+fsync of all",
            "s",
            ["ckptfs", "backing"],
            sample_tight,
            goal=1.0,
            smaller=True,
        ),
        Row(
            "lazy-many",
            "8 sessions at once, tensors of 20 KiB; as much in large ones",
            "s",
            ["small", "large"],
            sample_many,
            goal=1.5,
            smaller=True,
        ),
        Row(
            "lazy-durable",
            "  committed; write+fsync",
            "s",
            ["ckptfs", "backing"],
            sample_durable,
            goal=1.0,
            smaller=True,
        ),
        Row(
            "lazy-steps",
            "training step, one core, such a save at each",
            "s",
            ["ckptfs", "no saves"],
            sample_steps(200 if quick else 2000, 3),
            goal=1.05,
            smaller=True,
        ),
    ]
