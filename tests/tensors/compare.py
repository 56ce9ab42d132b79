# SPDX-License-Identifier: MIT
"""Puts tensors together from what `ckptfs tensors` says of a checkpoint, by reads of its files, and
compares them with what the package that wrote it reads (expected.json of trees.py): names, types,
shapes and bytes, and that nothing is missing or too much."""

import hashlib
import itertools
import json
import math
import os
import subprocess
import sys

SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
SIZES.update({"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8, "C128": 16})

# The kinds of trees.py of which `ckptfs tensors` calls opaque what the package can read. Each must
# still differ: a change that describes one takes it out of here.
NOT_DESCRIBED = {
    "torch_conjugate": "torch conjugates and negates as it reads",
    "zero_1_aligned": "gaps between aligned parameters make all opaque",
}


def index(path):
    done = subprocess.run(
        [os.environ["CKPTFS"], "tensors", "--json", path], capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def keep(path):
    return subprocess.run(
        [os.environ["CKPTFS"], "tensors", "--keep", path], capture_output=True
    ).returncode


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
    """The digest of it. @tree: what `ckptfs tensors` was given, a directory or a file."""
    size = SIZES[tensor["dtype"]]
    whole = bytearray(math.prod(tensor["shape"]) * size)
    total = 0
    for piece in tensor["pieces"]:
        if not piece["bytes"]:
            continue
        path = os.path.join(tree, piece["path"]) if os.path.isdir(tree) else tree
        with open(path, "rb") as file:
            file.seek(piece["at"])
            data = file.read(piece["bytes"])
        assert len(data) == piece["bytes"], piece
        put(whole, tensor["shape"], size, piece, data)
        total += len(data)
    assert total == len(whole), f"{tensor['name']}: {total} B of {len(whole)}"
    return hashlib.sha256(whole).hexdigest()


def told(entry):
    return f"{entry['name']} {entry['dtype']} {entry['shape']}"


def take(found, entry):
    """Takes the tensor of @entry out of @found. None, or what is not as it should be."""
    same = [t for t in found if t["name"] == entry["name"]]
    if not same:
        return "missing"
    alike = [t for t in same if (t["dtype"], t["shape"]) == (entry["dtype"], entry["shape"])]
    if not alike:
        return f"is {', '.join(told(t) for t in same)}"
    equal = [t for t in alike if t["state"] == "complete" and t["sha256"] == entry["sha256"]]
    if not equal:
        return f"has other bytes: {alike}"
    found.remove(equal[0])
    return None


def ties(tensors):
    """The sets of names that share bytes, of all scopes."""
    sets = {}
    for tensor in tensors:
        if "alias" in tensor:
            key = (tensor.get("scope"), tensor["alias"])
            sets.setdefault(key, {tensor["alias"]}).add(tensor["name"])
    return sorted(map(sorted, sets.values()))


def differences(directory, file=""):
    """What is not as it should be in directory/tree, as lines; and how many tensors there are.
    @file: its only one, which is asked for by itself."""
    tree = os.path.join(directory, "tree", file) if file else directory + "/tree"
    with open(directory + "/expected.json", encoding="utf-8") as text:
        expected = json.load(text)
    got = index(tree)
    found, opaque, bad = got["tensors"], got["opaque"], []
    for tensor in found:
        if tensor["state"] == "complete":
            tensor["sha256"] = assemble(tree, tensor)
        elif tensor["state"] != "opaque":
            bad.append(f"{tensor['name']}: {tensor['state']}")
    if ties(found) != ties(expected):
        bad.append(f"shares bytes: {ties(found)}, but should: {ties(expected)}")
    unknown = [t for t in found if t["state"] == "complete"]
    used = []
    for entry in expected:
        if "opaque" in entry:
            reasons = [o for o in opaque if o.get("name", "") in ("", entry["name"])]
            used += [o for o in reasons if entry["opaque"] in o["reason"]]
            if not any(entry["opaque"] in o["reason"] for o in reasons):
                bad.append(f"{told(entry)}: should be opaque: {reasons}")
            continue
        wrong = take(unknown, entry)
        if wrong:
            bad.append(f"{told(entry)}: {wrong}")
    bad += [f"opaque: {o}" for o in opaque if o not in used]
    bad += [f"too much: {told(t)} in {t.get('scope')}" for t in unknown]
    return bad, len(expected)


def failures(directory):
    """The same, of a directory with the name of its kind: what is NOT_DESCRIBED does not count."""
    lines, count = differences(directory)
    name = os.path.basename(directory)
    if name in NOT_DESCRIBED:
        lines = [] if lines else [f"{name} is described now: take it out of NOT_DESCRIBED"]
    return lines, count


if __name__ == "__main__":
    lines, count = differences(sys.argv[1])
    print("\n".join(lines) or f"{count} tensors are equal")
    sys.exit(bool(lines))
