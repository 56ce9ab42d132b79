# SPDX-License-Identifier: MIT
"""The Trainer of transformers, lazily:

    trainer = Trainer(..., callbacks=[ckptfs.trainer.Callback()])

What it saves on a mount of ckptfs, by torch.save and as safetensors, is captured while training
goes on."""

from __future__ import annotations

import logging
from typing import Any

from transformers import TrainerCallback

from . import autoload, safetensors_file
from ._lib import CheckpointError
from .session import barrier

log = logging.getLogger("ckptfs")


class Callback(TrainerCallback):
    """Makes torch.save and safetensors.torch.save_file lazy, and waits at the end for what is still
    to be captured."""

    def __init__(self) -> None:
        autoload.enable()
        safetensors_file.enable()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Waits for captures, since code after the training may change the parameters. A failed
        save is logged: it fails no training that is over."""
        try:
            barrier(landed=True)
        except CheckpointError as error:
            log.error("%s", error)
