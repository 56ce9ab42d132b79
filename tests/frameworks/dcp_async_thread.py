#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint.async_save in a thread: training goes on while it writes."""

from harness import enter, main

enter("torch")
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

from dcp import Dcp


class DcpAsync(Dcp):
    name = "DCP, async_save in a thread"
    costs = (1, 0, 1)
    switch = "`save` instead"
    switched = Dcp
    at_once = False
    how = AsyncCheckpointerType.THREAD

    def writer(self, path):
        """None: that which DCP chooses."""

    def setup(self, run):
        group = dist.new_group(backend="gloo")
        under_way = []

        def begin(state, path):
            under_way.append(
                checkpoint.async_save(
                    state,
                    checkpoint_id=path,
                    storage_writer=self.writer(path),
                    process_group=group,
                    async_checkpointer_type=self.how,
                )
            )

        return begin, lambda: under_way.pop().result()


if __name__ == "__main__":
    main(DcpAsync())
