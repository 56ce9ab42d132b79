#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.save: rank 0 writes one file, the name of which is final from the first byte on. Read with
and without mmap. Also the base of others that write one file."""

from harness import Framework, enter, main, newest

enter("torch")
import torch

import training


class TorchSave(Framework):
    name = "torch.save"
    package = "torch"
    files = True
    pattern = r"step-(\d+)\.pt"
    commits = "the last close of the file"

    def load(self, path):
        mapped = torch.load(path, weights_only=True, mmap=True)
        return mapped if mapped["step"] % 4 else torch.load(path, weights_only=True)

    suffix = ".pt"
    training = training.Training

    def write(self, state, path):
        torch.save(state, path)

    def train(self, run):
        def save(t):
            if run.rank == 0:
                self.write(t.state(), f"{run.dir}/step-{t.step}{self.suffix}")
                training.rotate(self, run)
            run.saved(t.step)

        t = self.training(run)
        found = self.found(run.dir)
        if found:
            t.take(self.load(found[newest(found)]))
        t.go(run, save)


if __name__ == "__main__":
    main(TorchSave())
