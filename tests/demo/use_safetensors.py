# SPDX-License-Identifier: MIT
"""Save tensors with safetensors, and load them back whole and one by one.

usage: use_safetensors.py DIR
"""

import os
import sys
import time

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def main(directory: str) -> None:
    random = np.random.default_rng(2)
    want = {
        f"layers.{i}.weight": random.standard_normal((1024, 2048), dtype=np.float32)
        for i in range(16)
    }
    want["scale"] = np.float32([0.5])
    want["empty"] = np.zeros((0, 4), dtype=np.int64)
    path = os.path.join(directory, "model.safetensors")
    start = time.perf_counter()
    save_file(want, path, metadata={"format": "np"})
    save_file(want, path, metadata={"format": "np"})  # once more, over the first
    blocked = time.perf_counter() - start
    got = load_file(path)
    if got.keys() != want.keys():
        sys.exit("load_file: other names than were saved")
    with safe_open(path, framework="np") as opened:
        for name, value in want.items():
            if not np.array_equal(got[name], value):
                sys.exit(f"load_file: {name} differs from what was saved")
            if not np.array_equal(opened.get_tensor(name), value):
                sys.exit(f"safe_open: {name} differs from what was saved")
        part = opened.get_slice("layers.3.weight")[100:200, 7:1999]
    if not np.array_equal(part, want["layers.3.weight"][100:200, 7:1999]):
        sys.exit("get_slice: differs from what was saved")
    print(f"blocked {blocked:.3f}")


main(sys.argv[1])
