# SPDX-License-Identifier: MIT
"""The Python package in trainers: that of this source tree."""

import os
import sys

sys.path.insert(0, os.environ["SRC"] + "/client/python")
os.environ["CKPTFS_LIB"] = os.environ["BUILD"] + "/lib"

# pylint: disable=wrong-import-position
from ckptfs import autoload, session


def torch_save_is_lazy():
	"""As `python -m ckptfs run` makes it, in this process."""
	autoload.enable()


def was_lazy(run):
	"""A run on a mount has captured something, and all that is over."""
	for one in session.sessions():
		one.barrier(landed=True)
		stats = one.stats()
		assert stats.captures and not stats.failed and not stats.pending, stats
		run.tell("captured", run.steps, bytes=stats.captured_bytes)
