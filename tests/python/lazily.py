# SPDX-License-Identifier: MIT
"""What tests of the Python package with torch have in common: they import this module first, behind
which they run in the environment of tests/frameworks, with the package of this source tree."""

import logging
import os
import sys

SRC, BUILD, TMP = os.environ["SRC"], os.environ["BUILD"], os.environ["TEST_TMP"]
sys.path[:0] = [SRC + "/tests/frameworks", SRC + "/client/python"]
os.environ["CKPTFS_LIB"] = BUILD + "/lib"
os.environ["PYTHONPATH"] = SRC + "/client/python"

from harness.environment import enter, need_fuse

need_fuse()
enter("torch", "safetensors")

import torch

from ckptfs import CheckpointError


class Said(logging.Handler):
    """What the package logs."""

    def __init__(self):
        super().__init__()
        self.lines = []
        logging.getLogger("ckptfs").addHandler(self)

    def emit(self, record):
        self.lines.append(record.getMessage())


def fails(call, *args, **kwargs):
    """The exception."""
    try:
        call(*args, **kwargs)
    except CheckpointError as error:
        return error
    raise AssertionError("nothing was raised")


def copy(state):
    """Of all its tensors."""
    if isinstance(state, torch.Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: copy(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [copy(value) for value in state]
    return state


def state_of(model, *optimizers, **more):
    return dict(
        {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers]}, **more
    )
