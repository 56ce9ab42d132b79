#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""NumPy: one .npz, of which headers are filled in after the data. No built-in rule knows the name,
so the config file has one."""

from harness import enter, main

enter("numpy", "torch")
import numpy
import torch

import training
from torch_save import TorchSave


def own_rule(pattern):
    return {
        "rules": [{"name": "arrays", "kind": "file", "match": [pattern], "done": [["all_closed"]]}]
    }


class Savez(TorchSave):
    name = "NumPy, savez"
    package = "numpy"
    pattern = r"step-(\d+)\.npz"
    suffix = ".npz"
    config = own_rule("?*.npz")
    lazily = "no lazy form: arrays, not tensors of torch"
    commits = "the last close of the file"
    training = training.Flat

    def write(self, state, path):
        numpy.savez(path, **{name: value.numpy() for name, value in state.items()})

    def load(self, path):
        with numpy.load(path) as file:
            return {name: torch.from_numpy(file[name]) for name in file.files}


if __name__ == "__main__":
    main(Savez())
