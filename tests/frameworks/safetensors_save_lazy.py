#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""safetensors made lazy by `python -m ckptfs run`."""

from harness import enter, main

enter("torch", "safetensors")
from harness.lazily import Unchanged

Unchanged.begin()

from safetensors_save import Safetensors


class SafetensorsLazily(Unchanged, Safetensors):
    pass


if __name__ == "__main__":
    main(SafetensorsLazily())
