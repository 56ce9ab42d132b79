#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint, lazily: fully_shard's parts captured by ckptfs.dcp.Writer, and read
by ckptfs.dcp.Reader; what is written the stock reader reads, too. Also the base of the other ways
to use it."""

from harness import enter, main

enter("torch")
from torch.distributed import checkpoint

from dcp import Dcp
from harness.lazily import Lazily

from ckptfs.dcp import Reader, Writer


class ByWriter(Lazily):
    lazily = "`storage_writer=ckptfs.dcp.Writer(path)`"

    def fill(self, state, path):
        checkpoint.load(state, storage_reader=Reader(path))


class DcpLazily(ByWriter, Dcp):
    def setup(self, run):
        return lambda state, path: checkpoint.save(state, storage_writer=Writer(path)), lambda: None


if __name__ == "__main__":
    main(DcpLazily())
