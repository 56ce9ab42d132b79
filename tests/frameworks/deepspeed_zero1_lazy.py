#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""DeepSpeed with ZeRO 1, lazily by its config alone: `datastates_ckpt` makes it import
`datastates`, which is ours (client/python). Also the base of the other stages."""

from harness import enter, main

enter("deepspeed", "torch")
from deepspeed_zero1 import DeepSpeed
from harness.lazily import Lazily


class ByConfig(Lazily):
    lazily = "`datastates_ckpt` in its JSON config"
    more = {
        "datastates_ckpt": {"host_cache_size": 0.01, "parser_threads": 2, "pin_host_cache": True}
    }


class DeepSpeedLazily(ByConfig, DeepSpeed):
    pass


if __name__ == "__main__":
    main(DeepSpeedLazily())
