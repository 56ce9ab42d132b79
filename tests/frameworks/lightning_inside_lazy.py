#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""Lightning with ckptfs.lightning.CheckpointIO, and last.ckpt a link. TMPDIR, which
lightning_inside.py puts inside of the mount, has nothing to do with it."""

from harness import enter, main

enter("lightning", "torch")
from lightning_fit_lazy import LightningLazily


class LightningLinked(LightningLazily):
    name = "Lightning, ModelCheckpoint, last.ckpt a link"
    captured = 1
    last = "link"


if __name__ == "__main__":
    main(LightningLinked())
