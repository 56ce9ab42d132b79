# SPDX-License-Identifier: MIT
"""What the tests of tests/frameworks have in common: each is a file of its own, which describes one framework (framework.py)
and calls main() of watch.py. README: tests/README.md, "Frameworks"."""
