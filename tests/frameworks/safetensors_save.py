#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""safetensors: one file, written under a temporary name that is renamed before it is closed. Read
by a shared mapping."""

from harness import enter, main

enter("torch", "safetensors")
from safetensors.torch import load_file, save_file

import training
from torch_save import TorchSave


class Safetensors(TorchSave):
    name = "safetensors"
    package = "safetensors"
    pattern = r"step-(\d+)\.safetensors"
    commits = "the last close of the file, which has its name by then"
    suffix = ".safetensors"
    training = training.Flat

    def load(self, path):
        return load_file(path)

    def write(self, state, path):
        save_file(state, path)


if __name__ == "__main__":
    main(Safetensors())
