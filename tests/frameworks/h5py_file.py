#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""h5py: one .h5, whose beginning is written again at the end. No built-in rule knows the name, so
the config file has one."""

from harness import enter, main

enter("h5py", "numpy", "torch")
import h5py
import torch

import training
from numpy_savez import own_rule
from torch_save import TorchSave


class Hdf5(TorchSave):
    name = "h5py"
    package = "h5py"
    pattern = r"step-(\d+)\.h5"
    suffix = ".h5"
    config = own_rule("?*.h5")
    lazily = "no lazy form: HDF5 copies what it is given"
    commits = "the last close of the file"
    training = training.Flat

    def write(self, state, path):
        with h5py.File(path, "w") as file:
            for name, value in state.items():
                file[name] = value.numpy()

    def load(self, path):
        with h5py.File(path, "r") as file:
            return {name: torch.tensor(value[()]) for name, value in file.items()}


if __name__ == "__main__":
    main(Hdf5())
