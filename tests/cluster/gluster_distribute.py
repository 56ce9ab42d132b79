#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# needs: root
# timeout: 600
# Three nodes on a GlusterFS volume of two bricks, each by a client of its own: saves and failures
# as on any other backing. There is no RENAME_NOREPLACE and no RENAME_EXCHANGE, and a client keeps
# attributes and absent names for a second.

import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
import network

network.enter()
from volumes import on_volume

on_volume("distribute")
