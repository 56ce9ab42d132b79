#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 240
# What fails on one node is failed on all, with its reason, and nothing of it is ever committed: a
# rank that dies, a daemon that is killed, also that of the node which began it. Who comes next,
# with fewer nodes, saves under the same name.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import nodes
from scenarios import failures

with nodes("one", "two", "three") as three_nodes:
    failures(*three_nodes)
