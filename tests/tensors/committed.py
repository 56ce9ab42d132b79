#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tensors of a commit file: ranges in several files are one tensor; whole ones of one name are
not."""

import os
import subprocess

from commits import commit_file

os.chdir(os.environ["TEST_TMP"])


def line(path, nr, first=0):
    """@nr elements of "w" from @first on, which are in that file."""
    found = {"name": "w", "dtype": "U8", "shape": [6], "offset": [0], "length": [6], "path": path}
    return found | {"at": 0, "bytes": nr} | ({"from": first} if first else {})


def listed(*lines):
    os.makedirs("unit", exist_ok=True)
    for one in lines:
        with open("unit/" + one["path"], "wb") as file:
            file.write(bytes(range(one.get("from", 0), one.get("from", 0) + one["bytes"])))
    with open("unit/.ckptfs-commit.json", "w", encoding="utf-8") as file:
        file.write(commit_file(lines))
    done = subprocess.run([os.environ["CKPTFS"], "tensors", "unit"], capture_output=True, text=True)
    return done.stdout


out = listed(line("a", 2), line("b", 4, 2))
assert "1 tensors, 6 B: complete" in out, out
out = listed(line("a", 6), line("b", 6))
assert "2 tensors, 12 B: complete" in out, out
out = listed(line("a", 2), line("b", 3, 2))
assert "1 of 6 bytes are missing" in out, out
