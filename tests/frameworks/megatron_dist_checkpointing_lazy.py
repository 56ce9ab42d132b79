#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""dist_checkpointing of Megatron-core with ckptfs.megatron.enable(): no processes that write, the
tensors are captured."""

from harness import enter, main

enter("megatron-core", "torch")
import re

from harness.lazily import Lazily
from megatron_dist_checkpointing import Megatron

from ckptfs import megatron

megatron.enable()


class MegatronLazily(Lazily, Megatron):
    lazily = "`ckptfs.megatron.enable()`"

    def name_of(self, name):
        """A rank has one file, not one of each process."""
        return re.sub(r"(__\d+)_\d+", r"\1_0", name)


if __name__ == "__main__":
    main(MegatronLazily())
