#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint, lazily: fully_shard's parts captured by ckptfs.dcp.Writer, and read by ckptfs.dcp.Reader;
what is written the stock reader reads, too."""

from harness import enter, main

enter("torch")
# pylint: disable=wrong-import-position
from torch.distributed import checkpoint

import dcp
from harness import lazily

from ckptfs.dcp import Reader, Writer


class DcpLazily(dcp.Dcp):
	name = "DCP, save, lazily"
	costs = (0, 0, 0) # what is written by write(2)

	def setup(self, run):
		return lambda state, path: checkpoint.save(state, storage_writer=Writer(path)), lambda: None

	def fill(self, state, path):
		checkpoint.load(state, storage_reader=Reader(path))

	def train(self, run):
		super().train(run)
		lazily.was_lazy(run)


if __name__ == "__main__":
	main(DcpLazily())
