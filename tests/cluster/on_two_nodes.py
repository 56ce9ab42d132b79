#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-cluster
# needs: root
# timeout: 900
"""on_two_nodes.py MODULE CLASS: that class of tests/frameworks with its ranks on two nodes;
on_two_nodes.list says which."""

import importlib
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/frameworks"))

if __name__ == "__main__":
    _, module, name = sys.argv
    framework = getattr(importlib.import_module(module), name)
    from harness.nodes import spread

    spread(framework())
