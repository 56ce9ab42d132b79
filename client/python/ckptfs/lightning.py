# SPDX-License-Identifier: MIT
"""Lightning, lazily:

    trainer = lightning.Trainer(..., plugins=[ckptfs.lightning.CheckpointIO()])

Checkpoints on a mount of ckptfs are written there at once, not to TMPDIR first, and captured while
training goes on; on another filesystem it is Lightning's own."""

from __future__ import annotations

import os
from typing import Any

try:
    from lightning.pytorch.plugins.io import TorchCheckpointIO
except ImportError:
    from pytorch_lightning.plugins.io import TorchCheckpointIO

from . import lazy, loading, mounts
from .mounts import in_mount


class CheckpointIO(TorchCheckpointIO):
    """Writes one file for each checkpoint, as Lightning's default does."""

    def save_checkpoint(
        self, checkpoint: Any, path: Any, storage_options: Any | None = None
    ) -> None:
        directory = os.path.dirname(os.path.abspath(path))
        if storage_options is None and "://" not in str(path):
            os.makedirs(directory, exist_ok=True)
            if in_mount(directory):
                lazy.save(checkpoint, path)
                return
            mounts.check_required(path)
        super().save_checkpoint(checkpoint, path, storage_options)

    def load_checkpoint(
        self,
        path: Any,
        map_location: Any = lambda storage, loc: storage,
        weights_only: bool | None = None,
    ) -> Any:
        if "://" not in str(path):
            mounts.check_required(path)
        if not os.path.isfile(path):
            return super().load_checkpoint(path, map_location, weights_only)
        more: dict[str, Any] = {} if weights_only is None else {"weights_only": weights_only}
        return loading.load(path, map_location, **more)
