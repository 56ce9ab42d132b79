# SPDX-License-Identifier: MIT
"""The Trainer of transformers, lazily:

	trainer = Trainer(..., callbacks=[ckptfs.trainer.Callback()])

What it saves by torch.save on a mount of ckptfs, which is the optimizer's state, is captured while training goes on. Its
model.safetensors is written as ever, into the cache of the mount."""

from __future__ import annotations

import logging
from typing import Any

from transformers import TrainerCallback

from . import autoload
from ._lib import CheckpointError
from .session import barrier

log = logging.getLogger("ckptfs")


class Callback(TrainerCallback):
	"""Makes torch.save lazy, and waits at the end for what is still to be captured."""

	def __init__(self) -> None:
		autoload.enable()

	def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: # pylint: disable=unused-argument
		"""The parameters may be changed by whatever comes behind. What has failed is told, and fails no training that is over."""
		try:
			barrier(landed=True)
		except CheckpointError as error:
			log.error("%s", error)
