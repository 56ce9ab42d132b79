#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 120
# needs: root
# Each node has a client of the backing of its own, which remembers for a second what a name leads
# to, and attributes, whatever others change: as one of GlusterFS. All that holds of nodes that
# share a directory holds there.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import nodes, staged
from remembering import make
from scenarios import saves

with nodes("one", "two", "three", make=make) as three:
    saves(*three)
assert staged() == [], staged()
