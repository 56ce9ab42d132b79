# SPDX-License-Identifier: MIT
"""What the tests of tests/frameworks have in common: each is a file of its own, which enter()s the
environment, imports its framework, describes how it is used (framework.py) and calls main() of
watch.py."""

from .environment import enter
from .framework import Framework, newest
from .watch import main

__all__ = ["Framework", "enter", "main", "newest"]
