# SPDX-License-Identifier: MIT
"""For the programs of this group: what a call says when it fails, and what the package logs."""

import errno
import logging
import os
import sys
import time

import ckptfs

said = []


class _Said(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())


logging.getLogger("ckptfs").addHandler(_Said())


def told(number, call, *args, **kwargs):
    """The text of its CheckpointError, whose errno is @number, or one of several."""
    try:
        call(*args, **kwargs)
    except ckptfs.CheckpointError as error:
        assert error.errno in (number if isinstance(number, tuple) else (number,)), (
            error.errno,
            str(error),
        )
        return str(error)
    raise AssertionError("nothing was raised")


def told_soon(number, call):
    """The same of a call that tells what was found out behind the program's back: as soon as that
    is known."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            call()
        except ckptfs.CheckpointError as error:
            assert error.errno == number, (error.errno, str(error))
            return str(error)
        time.sleep(0.02)
    raise AssertionError("nothing was raised")
