# SPDX-License-Identifier: MIT
"""Measures torch.save (bench.py runs it).

usage: torch_save.py DIR BYTES

Saves tensors of BYTES in all to DIR/first.pt, says "ready", waits for a line, saves them to
DIR/x.pt, and prints the seconds that the second save took.
"""
import os
import sys
import time

import torch

TENSOR_BYTES = 64 << 20


def main(directory: str, total: int) -> None:
    torch.manual_seed(1)
    state = {}
    for start in range(0, total, TENSOR_BYTES):
        count = min(TENSOR_BYTES, total - start) // 4
        state[f"layer.{len(state)}.weight"] = torch.rand(count)
    torch.save(state, os.path.join(directory, "first.pt"))
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit("no start signal")
    start = time.perf_counter()
    torch.save(state, os.path.join(directory, "x.pt"))
    print(f"{time.perf_counter() - start:.6f}")


main(sys.argv[1], int(sys.argv[2]))
