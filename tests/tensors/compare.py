# SPDX-License-Identifier: MIT
"""Puts tensors together from what `ckptfs tensors` says of a checkpoint, by reads of its files, and
compares them with what the package that wrote it reads."""

import hashlib
import itertools
import json
import math
import os
import subprocess
import sys

SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
SIZES.update({"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "C64": 8, "C128": 16})


def index(path):
    done = subprocess.run(
        [os.environ["CKPTFS"], "tensors", "--json", path], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def put(whole, shape, size, piece, data):
    """Puts the bytes of a piece at their places, row by row."""
    offset, length = piece["offset"], piece["length"]
    row = (length[-1] if length else 1) * size
    done, start = 0, piece.get("from", 0)
    for n, at in enumerate(itertools.product(*map(range, length[:-1]))):
        begin, end = max(start, n * row), min(start + len(data), (n + 1) * row)
        if begin >= end:
            continue
        flat = 0
        for i, o, s in zip([*at, 0] if length else [], offset, shape):
            flat = flat * s + i + o
        to = flat * size + begin - n * row
        whole[to : to + end - begin] = data[done : done + end - begin]
        done += end - begin
    assert done == len(data), piece


def assemble(tree, tensor):
    size = SIZES[tensor["dtype"]]
    whole = bytearray(math.prod(tensor["shape"]) * size)
    for piece in tensor["pieces"]:
        if not piece["bytes"]:
            continue
        with open(os.path.join(tree, piece["path"]), "rb") as file:
            file.seek(piece["at"])
            data = file.read(piece["bytes"])
        put(whole, tensor["shape"], size, piece, data)
    return hashlib.sha256(whole).hexdigest()


def differences(directory):
    """What is not as it should be in directory/tree, as lines."""
    tree = directory + "/tree"
    with open(directory + "/expected.json", encoding="utf-8") as file:
        expected = json.load(file)
    found = index(tree)
    bad = [f"opaque: {o}" for o in found["opaque"]]
    got = {}
    for tensor in found["tensors"]:
        got.setdefault(tensor["name"], []).append(tensor)
        if tensor["state"] != "complete":
            bad.append(f"{tensor['name']}: {tensor['state']}")
    for name, (shape, digest) in expected.items():
        same = [t for t in got.get(name, []) if t["shape"] == shape]
        if not any(assemble(tree, t) == digest for t in same):
            bad.append(f"{name} {shape}: {got.get(name)}")
    return bad, len(expected)


if __name__ == "__main__":
    lines, count = differences(sys.argv[1])
    print("\n".join(lines) or f"{count} tensors are equal")
    sys.exit(bool(lines))
