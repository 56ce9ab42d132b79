#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""DeepSpeed with ZeRO 2, lazily by its config alone."""

from harness import enter, main

enter("deepspeed", "torch")
from deepspeed_zero1_lazy import ByConfig
from deepspeed_zero2 import DeepSpeed2


class DeepSpeed2Lazily(ByConfig, DeepSpeed2):
    pass


if __name__ == "__main__":
    main(DeepSpeed2Lazily())
