#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 2400
"""torch_checkpointing, which copies the state and has a process beside each rank write it while
training goes on."""

from harness import enter, main

enter("torch", "torch_checkpointing")
from torch_checkpointing import AsyncCheckpointSaverConfig, CheckpointStagerConfig

from torch_checkpointing_save import TorchCheckpointing


class TorchCheckpointingAsync(TorchCheckpointing):
    name = "torch_checkpointing, async save"

    at_once = False  # its copy in memory stays from one save to the next, so that no save adds one

    @staticmethod
    def saver():
        return AsyncCheckpointSaverConfig(
            staging_config=CheckpointStagerConfig(
                use_pinned_memory=False,
                use_shared_memory=False,
                use_async_staging=False,
                use_non_blocking_copy=False,
            )
        )


if __name__ == "__main__":
    main(TorchCheckpointingAsync())
