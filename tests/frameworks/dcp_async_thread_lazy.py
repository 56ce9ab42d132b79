#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint.async_save in a thread, lazily: nothing is copied before training
goes on."""

from harness import enter, main

enter("torch")
from dcp_async_thread import DcpAsync
from dcp_lazy import ByWriter

from ckptfs.dcp import Writer


class DcpAsyncLazily(ByWriter, DcpAsync):
    def writer(self, path):
        return Writer(path)


if __name__ == "__main__":
    main(DcpAsyncLazily())
