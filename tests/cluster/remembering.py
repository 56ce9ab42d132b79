# SPDX-License-Identifier: MIT
"""Clients of the backing that remember, as those of a network filesystem do, one for each node:
fs_remembers."""

import os
import subprocess

from nodes import BACK, SECONDS, TMP, Node, skip

# As GlusterFS has it.
SECOND = {"names": 1, "absent": 0, "attributes": 1}


def client(name, **remembers):
    """One of BACK; where it is mounted. It ends with the test, which has a mount namespace."""
    if os.environ.get("TEST_PRIVATE") != "1":
        skip("no namespaces of its own")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("cannot open /dev/fuse")
    where = os.path.join(TMP, "back." + name)
    for path in BACK, where:
        os.makedirs(path, exist_ok=True)
    times = [f"--{what}={seconds:g}" for what, seconds in (remembers or SECOND).items()]
    subprocess.run(
        [os.path.join(os.environ["BUILD"], "tests/helpers/fs_remembers"), *times, BACK, where],
        check=True,
        timeout=SECONDS,
    )
    return where


def make(name, options):
    return Node(name, options, client(name))
