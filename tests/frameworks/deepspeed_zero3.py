#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""DeepSpeed on a CPU, ZeRO 3: each rank has, and writes, its part of everything, also of the
model."""

from harness import enter, main

enter("deepspeed", "torch")
from deepspeed_zero1 import DeepSpeed


class DeepSpeed3(DeepSpeed):
    name = "DeepSpeed, ZeRO 3"
    stage = 3


if __name__ == "__main__":
    main(DeepSpeed3())
