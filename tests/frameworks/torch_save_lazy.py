#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.save made lazy by `python -m ckptfs run` (client/python): the same script, whose save returns before the tensors
are captured."""

from harness import enter, main

enter("torch")
# pylint: disable=wrong-import-position
import torch_save
from harness import lazily


class TorchSaveLazily(torch_save.TorchSave):
	name = "torch.save, lazily"
	costs = (0, 0, 0) # what is written by write(2)

	def train(self, run):
		lazily.torch_save_is_lazy()
		super().train(run)
		lazily.was_lazy(run)


if __name__ == "__main__":
	main(TorchSaveLazily())
