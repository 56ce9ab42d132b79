#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# needs: root
# timeout: 900
"""frameworks/torch_checkpointing_async.py with its ranks on two nodes."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/frameworks"))
from torch_checkpointing_async import TorchCheckpointingAsync
from harness.nodes import spread

if __name__ == "__main__":
	spread(TorchCheckpointingAsync())
