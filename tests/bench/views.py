# SPDX-License-Identifier: MIT
"""The rows on views: one tensor that eight files have in parts is read whole, through a mount."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from typing import Callable

from processes import command
from rows import rate
from setting import MIB, Bench

PARTS = 8
WIDTH = 8192  # elements of a row: in columns, the runs of a part are 4 KiB long


def make_parts(bench: Bench, columns: bool) -> str:
    """The files, as DCP's writer for Hugging Face cuts them, past all mounts; their directory."""
    name = "columns" if columns else "shards"
    top = os.path.join(bench.backing, name)
    if os.path.exists(top):
        return name
    os.mkdir(top)
    rows = bench.file_bytes // (4 * WIDTH)
    shape = [rows, WIDTH // PARTS] if columns else [rows // PARTS, WIDTH]
    size = 4 * shape[0] * shape[1]
    for nr in range(PARTS):
        at = [0, nr * shape[1]] if columns else [nr * shape[0], 0]
        sharding = {"w": {"saved_offsets": at, "global_shape": [rows, WIDTH]}}
        header = json.dumps(
            {
                "__metadata__": {"DCP_SHARDING_INFO": json.dumps(sharding)},
                "w": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]},
            }
        ).encode()
        path = os.path.join(top, f"shard-{nr:05}-model-00001-of-00001.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            for _ in range(size // MIB):
                file.write(os.urandom(4096) * 256)
    bench.settle()
    return name


def sample_view(columns: bool) -> Callable[[Bench, str], dict]:
    """A copy of the view, or of all the files that it is made of, into memory. The mount is fresh,
    and the pages of the backing are warm."""

    def sample(bench: Bench, side: str) -> dict:
        name = make_parts(bench, columns)
        with bench.side("tmpfs") as memory, bench.side("ckptfs") as path:
            to = os.path.join(memory, "copy")
            unit = os.path.join(path, name)
            files = [unit + "/.view/safetensors/model.safetensors"]
            if side != "ckptfs":
                files = [os.path.join(unit, one) for one in sorted(os.listdir(unit))]
            os.mkdir(to)
            start = time.monotonic()
            command(["cp", *files, to])
            seconds = time.monotonic() - start
            size = sum(os.path.getsize(os.path.join(to, one)) for one in os.listdir(to))
            shutil.rmtree(to)
            return rate((seconds, size), MIB)

    return sample
