# SPDX-License-Identifier: MIT
"""dist_checkpointing of Megatron-core, lazily:

    ckptfs.megatron.enable()

once, before training. dist_checkpointing.save in the format torch_dist to a mount of ckptfs then
forks no processes that write copies, but has the tensors captured; what is written Megatron loads
as ever. async_sharded_save=True, which copies all tensors first, is Megatron's own."""

from __future__ import annotations

import functools
from typing import Any

from megatron.core.dist_checkpointing.strategies import torch as strategies
from torch.distributed import checkpoint

from . import mounts
from .dcp import Writer
from .mounts import in_mount


def enable() -> None:
    """From here on `save` of the strategy for torch_dist is this, where the directory lies in a
    mount."""
    inner = strategies.TorchDistSaveShardedStrategy.save
    if hasattr(inner, "ckptfs_inner"):
        return

    @functools.wraps(inner)
    def save(self: Any, sharded_state_dict: Any, checkpoint_dir: Any) -> None:
        if in_mount(checkpoint_dir):
            _save(self, sharded_state_dict, checkpoint_dir)
        else:
            mounts.check_required(checkpoint_dir)
            inner(self, sharded_state_dict, checkpoint_dir)

    save.ckptfs_inner = inner  # type: ignore[attr-defined]
    strategies.TorchDistSaveShardedStrategy.save = save


def _save(strategy: Any, sharded_state_dict: Any, checkpoint_dir: Any) -> None:
    """As the strategy's async_save, with DCP's own way to write."""
    keep = strategy.keep_only_main_replica
    state = strategies._replace_state_dict_keys_with_sharded_keys(sharded_state_dict, keep)[0]
    planner = strategies.MCoreSavePlanner(
        dedup_replicated_tensors=not keep, flatten_state_dict=False
    )
    checkpoint.save(
        strategies.mcore_to_pyt_state_dict(state, False),
        storage_writer=Writer(checkpoint_dir),
        planner=planner,
    )
