#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# A checkpoint that ranks on three nodes write to is one: each sees what the others make, it commits
# once, with what all have written, and every node reads it, also over an older one of the name.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import nodes
from scenarios import saves

with nodes("one", "two", "three") as three_nodes:
    saves(*three_nodes)
