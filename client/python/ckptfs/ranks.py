# SPDX-License-Identifier: MIT
"""Which rank of how many this process is, where the caller does not say. Needs no torch."""

from __future__ import annotations

import os
import sys

# What launchers set, in the order in which it is believed.
_NAMES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


def rank_and_world(rank: int | None = None, world: int | None = None) -> tuple[int, int]:
    """As given; else as torch.distributed says, or the launcher; alone if nobody does. ValueError:
    there is no such rank."""
    found = _found()
    rank, world = found[0] if rank is None else rank, found[1] if world is None else world
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} is not one of {world}")
    return rank, world


def _found() -> tuple[int, int]:
    torch = sys.modules.get("torch")
    if (
        torch is not None
        and torch.distributed.is_available()
        and torch.distributed.is_initialized()
    ):
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    for rank, world in _NAMES:
        if os.environ.get(rank, "").isdigit() and os.environ.get(world, "").isdigit():
            return int(os.environ[rank]), int(os.environ[world])
    return 0, 1
