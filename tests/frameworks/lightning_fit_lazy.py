#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""Lightning with ckptfs.lightning.CheckpointIO: written on the mount at once, lazily; and last.ckpt
once more."""

from harness import enter, main

enter("lightning", "torch")
from harness.lazily import Lazily
from lightning_fit import Lightning

from ckptfs.lightning import CheckpointIO


class LightningLazily(Lazily, Lightning):
    lazily = "`plugins=[ckptfs.lightning.CheckpointIO()]`"
    commits = "the last close of the file"
    captured = 2
    plugins = [CheckpointIO()]


if __name__ == "__main__":
    main(LightningLazily())
