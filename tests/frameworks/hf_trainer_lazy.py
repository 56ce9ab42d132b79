#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""The Trainer of transformers with ckptfs.trainer.Callback: weights and the state of its optimizer are captured lazily."""

from harness import enter, main

enter("transformers", "accelerate", "torch", "safetensors")
# pylint: disable=wrong-import-position
import hf_trainer
from harness import lazily

from ckptfs.trainer import Callback


class HfTrainerLazily(hf_trainer.HfTrainer):
	name = "transformers Trainer, lazily"
	costs = (0, 0, 0) # what is written by write(2)

	def callbacks(self):
		return [Callback()]

	def train(self, run):
		super().train(run)
		if run.rank == 0:
			lazily.was_lazy(run)


if __name__ == "__main__":
	main(HfTrainerLazily())
