# SPDX-License-Identifier: MIT
"""The command `ckptfs` of a wheel that brings it along (make dist): runs the program that lies in
this package."""

from __future__ import annotations

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "ckptfs")


def main() -> None:
    try:
        os.execv(PROGRAM, ["ckptfs"] + sys.argv[1:])
    except OSError as error:
        sys.exit(
            f"ckptfs: {PROGRAM} cannot be run: {error.strerror}. "
            "Install the package anew: pip install --force-reinstall ckptfs"
        )
