#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""DeepSpeed with ZeRO 3, lazily by its config alone."""

from harness import enter, main

enter("deepspeed", "torch")
from deepspeed_zero1_lazy import ByConfig
from deepspeed_zero3 import DeepSpeed3


class DeepSpeed3Lazily(ByConfig, DeepSpeed3):
    pass


if __name__ == "__main__":
    main(DeepSpeed3Lazily())
