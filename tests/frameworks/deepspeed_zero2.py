#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""DeepSpeed on a CPU, ZeRO 2: the gradients are parted, too; it saves as with ZeRO 1."""

from harness import enter, main

enter("deepspeed", "torch")
from deepspeed_zero1 import DeepSpeed


class DeepSpeed2(DeepSpeed):
    name = "DeepSpeed, ZeRO 2"
    stage = 2


if __name__ == "__main__":
    main(DeepSpeed2())
