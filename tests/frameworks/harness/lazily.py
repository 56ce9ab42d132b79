# SPDX-License-Identifier: MIT
"""The Python package in trainers: that of this source tree. What a framework does unmodified it
does here once more, lazily: what is mixed in before its class says how a user comes to that."""

import os
import sys

sys.path.insert(0, os.environ["SRC"] + "/client/python")
os.environ["CKPTFS_LIB"] = os.environ["BUILD"] + "/lib"

from ckptfs import autoload, session


class Lazily:
    """Before a Framework: the same, of which a save captures all, and writes and copies none of
    it."""

    costs = (0, 0, 0)
    captured = 1
    switch = ""
    lazily = ""

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        if hasattr(cls, "name") and cls.captured:  # a Framework's
            cls.name += ", lazily"

    def train(self, run):
        super().train(run)
        _captured(run)


class Unchanged(Lazily):
    """By `python -m ckptfs run`, which does this before it runs the script: so must the test before
    its imports."""

    lazily = "nothing in the script: `python -m ckptfs run`"

    @staticmethod
    def begin():
        autoload.enable()
        autoload.enable_safetensors()


def _captured(run):
    """What this process had captured is over, and none of it has failed."""
    for one in session.sessions():
        one.barrier(landed=True)
        stats = one.stats()
        assert not stats.failed and not stats.pending, stats
        run.tell("captured", run.steps, bytes=stats.captured_bytes)
