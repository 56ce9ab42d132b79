#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""Lightning with ckptfs.lightning.CheckpointIO: written on the mount at once, lazily; last.ckpt is a link."""

from harness import enter, main

enter("lightning", "torch")
# pylint: disable=wrong-import-position

import lightning_fit
from harness import lazily

from ckptfs.lightning import CheckpointIO


class LightningLazily(lightning_fit.Lightning):
	name = "Lightning, ModelCheckpoint, lazily"
	commits = "the last close of the file"
	costs = (0, 0, 0) # what is written by write(2)
	switch = ""
	last = "link"
	plugins = [CheckpointIO()]

	def train(self, run):
		super().train(run)
		if run.rank == 0:
			lazily.was_lazy(run)


if __name__ == "__main__":
	main(LightningLazily())
