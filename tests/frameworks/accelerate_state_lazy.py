#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""accelerate's save_state, lazily by `python -m ckptfs run`: the weights, which it saves as
safetensors, and the state of the optimizer."""

from harness import enter, main

enter("accelerate", "torch", "safetensors")
from harness.lazily import Unchanged

Unchanged.begin()

from accelerate_state import Accelerate


class AccelerateLazily(Unchanged, Accelerate):
    pass


if __name__ == "__main__":
    main(AccelerateLazily())
