#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-tensors
# timeout: 900
# The index of a checkpoint of 8960 ranks, in 10^6 pieces, takes less than 1 GiB, and is complete.

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/tensors"))
from forms import metadata

CKPTFS = os.environ["CKPTFS"]
RANKS, TENSORS, PIECES, ROWS, WIDTH = 8960, 1000, 1000, 2, 512
SIZE = 4 * ROWS * WIDTH


def make():
    os.mkdir("unit")
    tensors, items, ends = {}, {}, [0] * RANKS
    for t in range(TENSORS):
        name, chunks = f"layers.{t}.weight", []
        for piece in range(PIECES):
            rank, at = (t * PIECES + piece) % RANKS, (piece * ROWS, 0)
            chunks.append((at, (ROWS, WIDTH)))
            items[name, at] = (f"__{rank}_0.distcp", ends[rank], SIZE)
            ends[rank] += SIZE
        tensors[name] = ((PIECES * ROWS, WIDTH), chunks)
    with open("unit/.metadata", "wb") as file:
        file.write(metadata(tensors, items))
    for rank, size in enumerate(ends):
        with open(f"unit/__{rank}_0.distcp", "wb") as file:
            file.truncate(size)


os.chdir(os.environ["TEST_TMP"])
if sys.argv[1:] == ["make"]:
    make()
    sys.exit()
# By another process: the memory of this one would count as that of what it starts.
subprocess.run([sys.executable, __file__, "make"], check=True)
listing = os.open("listing", os.O_RDWR | os.O_CREAT, 0o600)
pid = os.posix_spawn(
    CKPTFS,
    [CKPTFS, "tensors", "unit"],
    os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, listing, 1)],
)
_, status, used = os.wait4(pid, 0)
text = os.pread(listing, 1 << 20, 0).decode()
assert status == 0 and text.endswith("1000 tensors, 3.8 GiB: complete\n"), (status, text[-200:])
assert f" {PIECES}  model      layers.999.weight\n" in text
print(f"{used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss >> 10} MiB")
assert used.ru_maxrss < 1 << 20, used.ru_maxrss
