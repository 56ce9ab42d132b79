#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""accelerate's save_state with its own naming and total_limit, which removes the oldest before it
writes the next. Nothing marks the end."""

from harness import Framework, enter, main, newest

enter("accelerate", "torch", "safetensors")
import os

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from safetensors.torch import load_file

import training


class Accelerated(training.Training):
    """By accelerate's own means: it wraps model and optimizer, and makes the process group."""

    def __init__(self, run, keep):
        self.accelerator = Accelerator(
            cpu=True,
            project_config=ProjectConfiguration(
                project_dir=run.dir, automatic_checkpoint_naming=True, total_limit=keep
            ),
        )
        super().__init__(run)
        self.model, self.optimizer = self.accelerator.prepare(self.model, self.optimizer)

    def start_group(self):
        pass  # accelerate has

    def average(self):
        pass  # DistributedDataParallel does

    def state(self):
        return state_of(
            self.accelerator.unwrap_model(self.model).state_dict(), self.optimizer.state_dict()
        )


def state_of(model, optimizer):
    return {"model": dict(model), "optimizer": optimizer["state"]}


class Accelerate(Framework):
    name = "accelerate, save_state"
    package = "accelerate"
    pattern = r"checkpoint_(\d+)"
    done = (
        "every rank random_states_{rank}.pkl + quiet",
        "every rank random_states_{rank}.pkl + exited 0",
        "every rank random_states_{rank}.pkl + next sibling",
    )
    prompt = False
    alone = True
    commits = (
        "`random_states_N.pkl` of every rank and some silence, or the next checkpoint, or the end"
    )

    def found(self, directory):
        """The Nth is of step (N + 1) * every."""
        found = super().found(directory + "/checkpoints")
        return {(number + 1) * self.every: path for number, path in found.items()}

    def load(self, path):
        optimizer = torch.load(path + "/optimizer.bin", weights_only=True)
        return state_of(load_file(path + "/model.safetensors"), optimizer)

    def train(self, run):
        t = Accelerated(run, self.keep)
        found = self.found(run.dir)
        if found:
            t.step = newest(found)
            t.accelerator.load_state(found[t.step])
            t.accelerator.project_configuration.iteration = t.step // run.every

        def save(t):
            os.makedirs(run.dir + "/checkpoints", exist_ok=True)
            t.accelerator.save_state()
            run.saved(t.step)

        t.go(run, save)


if __name__ == "__main__":
    main(Accelerate())
