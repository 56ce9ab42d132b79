# SPDX-License-Identifier: MIT
"""Write an HDF5 file with h5py, reopen it to change and grow it, and read it back.

usage: use_h5py.py DIR

Times are kept out of the file (h5py's default too), so that two runs write the same bytes.
"""

import os
import sys
import time

import h5py
import numpy as np


def main(directory: str) -> None:
    random = np.random.default_rng(3)
    weights = random.standard_normal((4096, 2048), dtype=np.float32)
    packed = (weights[:1024] * 8).astype(np.int8)
    losses = random.standard_normal(10_000)
    path = os.path.join(directory, "model.h5")
    start = time.perf_counter()
    with h5py.File(path, "w") as file:
        group = file.create_group("model")
        group.attrs["epoch"] = 1
        group.create_dataset("weights", data=weights, track_times=False)
        group.create_dataset(
            "packed",
            data=packed,
            chunks=(128, 256),
            compression="gzip",
            compression_opts=1,
            shuffle=True,
            track_times=False,
        )
        file.create_dataset(
            "losses", data=losses[:4000], maxshape=(None,), chunks=(1000,), track_times=False
        )
    with h5py.File(path, "r+") as file:
        file["losses"].resize((len(losses),))
        file["losses"][4000:] = losses[4000:]
        file["model/weights"][17, ::3] = 1.0
        file["model"].attrs["epoch"] = 2
        file.flush()
    blocked = time.perf_counter() - start
    weights[17, ::3] = 1.0
    with h5py.File(path, "r") as file:
        for name, want in (
            ("model/weights", weights),
            ("model/packed", packed),
            ("losses", losses),
        ):
            if not np.array_equal(file[name][...], want):
                sys.exit(f"h5py: {name} differs from what was written")
        if file["model"].attrs["epoch"] != 2:
            sys.exit("h5py: an attribute differs from what was written")
    print(f"blocked {blocked:.3f}")


main(sys.argv[1])
