# SPDX-License-Identifier: MIT
"""The rows on trainings that save after each iteration, by one to four ranks on this node: how long
they take until the last checkpoint is durable. ranks.py does the work.

Where the ranks share the CPUs with the daemon, whatever a save costs makes the training longer."""

from __future__ import annotations

import os
from typing import Callable

from models import job_at
from processes import HERE
from rows import Row
from setting import MIB, SMALL_CACHE, Bench

RANKS = os.path.join(HERE, "ranks.py")
NONE = "no saves"
CACHES = 4  # of a save: half of the cache is lent, and saves overlap
STATE = 48 * MIB  # of a rank
ITERATION_S = 0.15  # without saves; communication of the ranks comes on top
# HOW of ranks.py, and whether it saves to the mount.
SIDES = {
    NONE: ("none", False),
    "ckptfs, async_save": ("dcp-thread-lazy", True),
    "DCP async_save": ("dcp-thread", False),
    "torch_checkpointing": ("torch_checkpointing", False),
}
ONE = {"ckptfs": ("torch-lazy", True), "ckptfs, DCP save": ("dcp-lazy", True), **SIDES}
SEVERAL = {"ckptfs": ("dcp-lazy", True), **SIDES}
NAMES = {
    "none": "none",
    "torch-lazy": "`ckptfs.save`",
    "dcp-lazy": "DCP `save`, `ckptfs.dcp.Writer`",
    "dcp-thread-lazy": "DCP `async_save`, `ckptfs.dcp.Writer`",
    "dcp-thread": "DCP `async_save`, plain",
    "torch_checkpointing": "torch_checkpointing, plain",
}


def sample_iterations(
    ranks: int, size: int, iterations: int, sides: dict[str, tuple[str, bool]]
) -> Callable[[Bench, str], dict]:
    def sample(bench: Bench, side: str) -> dict:
        state = size // 8 if bench.args.quick else size
        job = job_at(bench, RANKS, state, ranks)
        how, mounted = sides[side]
        with bench.side(
            "ckptfs" if mounted else "backing", CACHES * job.bytes + SMALL_CACHE
        ) as top:
            seconds = iterations * (0.02 if bench.args.quick else ITERATION_S)
            took = job.ask("run", how, top, bench.backing, iterations, seconds)
            bench.quiesce("ckptfs" if mounted else "backing")
        return {"value": took.pop("total"), **took, "MB": job.bytes / 1e6}

    return sample


class IterationsRow(Row):
    def __init__(self, name: str, ranks: int, size: int, iterations: int) -> None:
        sides = ONE if ranks == 1 else SEVERAL
        super().__init__(
            name,
            f"training with {ranks} rank{'s'[: ranks > 1]}, a save after each of {iterations} "
            "iterations, until durable",
            "s",
            list(sides),
            sample_iterations(ranks, size, iterations, sides),
            smaller=True,
            against=NONE,
            group="iterations",
            warm=True,
        )
        self.ranks, self.iterations, self.how = ranks, iterations, sides


def iteration_rows(quick: bool) -> list[Row]:
    """Weak scaling: each rank has as much. Strong scaling: all have as much."""
    if quick:
        return [IterationsRow("iterations-2-3", 2, 2 * STATE, 3)]
    return [
        *(
            IterationsRow(f"iterations-{ranks}-{iterations}", ranks, ranks * STATE, iterations)
            for ranks in (1, 2, 4)
            for iterations in (15, 50)
        ),
        *(IterationsRow(f"iterations-{ranks}-15-strong", ranks, STATE, 15) for ranks in (2, 4)),
    ]


# --- the table for documents ---

HEAD = (
    "training",
    "saves",
    "until all is durable",
    "of no saves",
    "single runs",
    "blocked for a save",
    "longest",
)


def milliseconds(value: float) -> str:
    return f"{1000 * value:.1f} ms" if value < 0.01 else f"{1000 * value:.0f} ms"


def iteration_lines(rows: list[Row]) -> list[str]:
    """A line for each way to save."""
    lines = []
    for row in rows:
        if not isinstance(row, IterationsRow) or not row.samples.get(NONE):
            continue
        for side in [NONE, *(each for each in row.sides if each != NONE and row.samples.get(each))]:
            plain = side == NONE
            runs = ", ".join(f"{each['value']:.1f}" for each in row.samples[side])
            cells = [
                f"{row.ranks} rank{'s'[: row.ranks > 1]}, {row.median(side, 'MB'):.0f} MB, "
                f"{row.iterations} iterations",
                NAMES[row.how[side][0]],
                f"{row.median(side):.2f} s",
                "" if plain else f"{row.ratio_of(side, NONE):.2f}x",
                f"{runs} s",
                "" if plain else milliseconds(row.median(side, "blocked")),
                "" if plain else milliseconds(row.median(side, "longest")),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|", *lines, ""] if lines else []
