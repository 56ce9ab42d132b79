#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# timeout: 900
"""torch.distributed.checkpoint of a job whose ranks are on two nodes, killed again and again: a rank, all, the daemon of one
node. Each time it resumes on both from the newest checkpoint, which is whole."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/frameworks"))
from dcp import Dcp
from harness import environment, watch

watch.KILLS = int(os.environ.get("CKPTFS_TEST_KILLS") or 3)
environment.need_fuse()
print("seed", watch.SEED)
watch.Watch(Dcp()).spread("one", "two")
