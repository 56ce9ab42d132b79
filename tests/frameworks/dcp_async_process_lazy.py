#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 2400
"""torch.distributed.checkpoint.async_save in a process, with ckptfs.dcp.Writer: that process has
copies only, and writes them."""

from harness import enter, main

enter("torch")
from dcp_async_process import DcpProcess
from dcp_lazy import ByWriter

import ckptfs
from ckptfs.dcp import Writer


class DcpProcessLazily(ByWriter, DcpProcess):
    name = "DCP, async_save in a process, with ckptfs.dcp.Writer"
    lazily = (
        "no lazy form: its process is given copies, which `ckptfs.dcp.Writer` writes; "
        "`async_save` in a thread has one"
    )
    costs = (1, 0, 1)
    captured = 0

    def writer(self, path):
        return Writer(path)

    def setup(self, run):
        begin, wait = super().setup(run)

        def begin_and_copy(state, path):
            begin(state, path)
            ckptfs.barrier()  # a step would wait for that: the copy counts

        return begin_and_copy, wait


if __name__ == "__main__":
    main(DcpProcessLazily())
