#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint of a model sharded by fully_shard: every rank writes its part, then
rank 0 renames .metadata. Also the base of the other ways to use it."""

import os

from harness import Framework, enter, main, newest

enter("torch")
import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

import training


class Dcp(Framework):
    name = "DCP, save"
    package = "torch"
    done = "rename .metadata"
    commits = "the rename to `.metadata`"
    at_once = True  # is a save over when the call returns?
    training = training.Sharded

    # --- in what its ways differ ---

    def setup(self, run):
        """Returns (begin, wait): begin(state, path) saves, or begins to; wait() returns when that
        is done."""
        return lambda state, path: checkpoint.save(state, checkpoint_id=path), lambda: None

    def fill(self, state, path):
        checkpoint.load(state, checkpoint_id=path)

    def load(self, path):
        one = os.environ["TEST_TMP"] + f"/one.{os.getpid()}.pt"
        dcp_to_torch_save(path, one)
        state = torch.load(one, weights_only=False)
        os.unlink(one)
        return state

    # --- and in common ---

    def train(self, run):
        t = self.training(run)
        begin, wait = self.setup(run)
        saving = []

        def finish():
            while saving:
                wait()
                if run.rank == 0:
                    training.rotate(self, run)
                run.saved(saving.pop())

        def save(t):
            finish()
            begin(t.state(), f"{run.dir}/step-{t.step}")
            run.returned(t.step)
            saving.append(t.step)
            if t.step == run.steps or self.at_once:
                finish()

        found = self.found(run.dir)
        if found:
            state = t.state()
            self.fill(state, found[newest(found)])
            t.take(state)
        t.go(run, save)


if __name__ == "__main__":
    main(Dcp())
