#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# timeout: 180
# cpu: 15
# The commit file tells of all tensors that were written by handle, on whatever node: also of those
# whose votes come by way of another node, and not of what was written over.

import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from nodes import BACK, Rank, nodes

PARTS = [
    os.path.join(os.environ["SRC"], "tests", part) for part in ("capture", "checkpoints", "units")
]
ROWS, COLUMNS = 64, 1000
BYTES = ROWS * COLUMNS * 4


def name(rank):
    return f"__{rank}_0.distcp"


def shard(of, path, at, ranks):
    return {
        "name": of,
        "dtype": "F32",
        "shape": [ROWS * ranks, COLUMNS],
        "offset": [ROWS * int(path.split("_")[2]), 0],
        "length": [ROWS, COLUMNS],
        "path": path,
        "at": at,
        "bytes": BYTES,
    }


def object_at(path):
    return {
        "name_hex": "args\udcff".encode(errors="surrogateescape").hex(),
        "kind": "object",
        "dtype": "U8",
        "path": path,
        "at": 2 * BYTES + 8192,
        "bytes": 100,
    }


def tensors(unit):
    with open(os.path.join(BACK, unit, ".ckptfs-commit.json"), encoding="utf-8") as file:
        lines = json.load(file)["tensors"]
    assert all(len(line.pop("xxh3")) == 32 for line in lines), lines
    return lines


def saves_by_handle(there, unit):
    ranks = [
        Rank(node, i, len(there), PYTHONPATH=":".join(PARTS), MNT=node.mnt, BACK=BACK)
        for i, node in enumerate(there)
    ]
    for rank in ranks:
        rank.do(
            "from capture import *; "
            f"s = Session(rank={rank.rank}, world={len(there)}, arena=1 << 20)"
        )
        shape, first = (len(there) * ROWS, COLUMNS), (rank.rank * ROWS, 0)
        rank.do(
            f"""s.register_shards({{
            1: ("w", {BYTES}, "F32", TENSOR, {shape}, {first}, {ROWS, COLUMNS}),
            2: ("b", {BYTES}, "F32", TENSOR, {shape}, {first}, {ROWS, COLUMNS}),
            3: ("args\\udcff", 100, "U8", OBJECT, (), (), ())}})"""
        )
    ranks[0].do(f"os.makedirs({unit!r})")
    for rank in ranks:
        rank.begin(
            f"""
with open('{unit}/{name(rank.rank)}', 'wb', 0) as f:
    f.write(b'header')
    s.write(
        f,
        (1, 4096, 0, {BYTES}, data(1, {BYTES})),
        (2, 4096 + {BYTES}, 0, {BYTES}, data(2, {BYTES})),
        (3, 8192 + 2 * {BYTES}, 0, 100, data(3, 100)),
    )
    s.capture()
"""
        )
    for rank in ranks:
        rank.end()
    # One of the last is written over.
    ranks[-1].do(
        f"with open('{unit}/{name(ranks[-1].rank)}', 'r+b', 0) as f: f.seek(4096 + {BYTES}); "
        "f.write(b'other bytes')"
    )
    ranks[0].do(
        f"open('{unit}/.metadata.tmp', 'wb').write(b'{unit}'); "
        f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')"
    )
    for node in there:
        node.wait_for(unit)
    there[0].ckptfs("verify", os.path.join(BACK, unit))
    got, nr = tensors(unit), len(there)
    assert [t for t in got if t["name" if "name" in t else "name_hex"] == "w"] == [
        shard("w", name(i), 4096, nr) for i in range(nr)
    ], got
    assert [t for t in got if t.get("name") == "b"] == [
        shard("b", name(i), 4096 + BYTES, nr) for i in range(nr - 1)
    ], got
    assert [t for t in got if "name_hex" in t] == [
        object_at(path) for path in sorted(map(name, range(nr)))
    ], got
    return ranks


FANOUT = 16  # so the last one's vote comes by way of another's
with nodes(*(f"n{i}" for i in range(FANOUT + 2)), options="host_cache_size=8M") as there:
    ranks = saves_by_handle(there, "step-1")
    # Another node changes one file of it: what is told of the others stays.
    before = tensors("step-1")
    ranks[2].do(f"with open('step-1/{name(1)}', 'wb') as f: f.write(b'plain')")
    ranks[0].do("with open('step-1/.metadata', 'wb') as f: f.write(b'changed')")
    there[2].ckptfs("commit", there[2].path("step-1"))
    for node in there:
        node.wait_for("step-1")
    assert tensors("step-1") == [t for t in before if t["path"] != name(1)], tensors("step-1")
    for rank in ranks:
        rank.leave()
