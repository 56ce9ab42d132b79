#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""Lightning with the switches of lightning_fit.py set: TMPDIR inside of the mount, last.ckpt a
link."""

from harness import enter, main

enter("lightning", "torch")
from lightning_fit import LightningInside

if __name__ == "__main__":
    main(LightningInside())
