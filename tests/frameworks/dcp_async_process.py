#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 2400
"""torch.distributed.checkpoint.async_save in a process: each rank has one beside it that writes."""

from harness import enter, main

enter("torch")
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from dcp_async_thread import DcpAsync


class DcpProcess(DcpAsync):
    name = "DCP, async_save in a process"
    how = AsyncCheckpointerType.PROCESS


if __name__ == "__main__":
    main(DcpProcess())
