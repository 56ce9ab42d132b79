#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.save made lazy by `python -m ckptfs run`: the same script, whose save returns before the
tensors are captured."""

from harness import enter, main

enter("torch")
from harness.lazily import Unchanged

Unchanged.begin()

from torch_save import TorchSave


class TorchSaveLazily(Unchanged, TorchSave):
    pass


if __name__ == "__main__":
    main(TorchSaveLazily())
