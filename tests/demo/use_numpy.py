# SPDX-License-Identifier: MIT
"""Save arrays with NumPy (save, savez, savez_compressed, memmap, tofile) and load them back.

usage: use_numpy.py DIR
"""

import os
import sys
import time

import numpy as np


def must_equal(got, want, what: str) -> None:
    if not np.array_equal(got, want):
        sys.exit(f"{what}: differs from what was saved")


def main(directory: str) -> None:
    def path(name: str) -> str:
        return os.path.join(directory, name)

    random = np.random.default_rng(4)
    big = random.standard_normal((4096, 2048), dtype=np.float32)
    small = random.integers(0, 100, (512, 1000), dtype=np.int16)
    start = time.perf_counter()
    np.save(path("big.npy"), big)
    np.savez(path("both.npz"), big=big, small=small)
    np.savez_compressed(path("packed.npz"), small=small)
    big.tofile(path("raw.bin"))
    mapped = np.memmap(path("map.bin"), dtype=np.float32, mode="w+", shape=big.shape)
    mapped[...] = big
    mapped.flush()
    del mapped
    mapped = np.memmap(path("map.bin"), dtype=np.float32, mode="r+", shape=big.shape)
    mapped[1000:1003, 5:99] = 7.0
    mapped.flush()
    del mapped
    blocked = time.perf_counter() - start
    must_equal(np.load(path("big.npy")), big, "np.load")
    must_equal(np.load(path("big.npy"), mmap_mode="r"), big, "np.load, mmap")
    with np.load(path("both.npz")) as both:
        must_equal(both["big"], big, "np.savez")
        must_equal(both["small"], small, "np.savez")
    with np.load(path("packed.npz")) as packed:
        must_equal(packed["small"], small, "np.savez_compressed")
    must_equal(np.fromfile(path("raw.bin"), dtype=np.float32).reshape(big.shape), big, "tofile")
    big[1000:1003, 5:99] = 7.0
    must_equal(
        np.memmap(path("map.bin"), dtype=np.float32, mode="r", shape=big.shape), big, "np.memmap"
    )
    # changed through a private mapping: the file must keep what it has
    private = np.memmap(path("map.bin"), dtype=np.float32, mode="c", shape=big.shape)
    private[:100] = 0.0
    del private
    must_equal(
        np.fromfile(path("map.bin"), dtype=np.float32).reshape(big.shape), big, "np.memmap, private"
    )
    print(f"blocked {blocked:.3f}")


main(sys.argv[1])
