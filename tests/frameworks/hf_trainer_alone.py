#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""The Trainer of transformers in one process without a rank, save_total_limit=1: the last one is
removed as soon as the next one is written."""

from harness import enter, main

enter("transformers", "accelerate", "torch", "safetensors")
from hf_trainer import HfTrainer


class HfTrainerAlone(HfTrainer):
    name = "transformers Trainer, save_total_limit=1"
    world = 0
    keep = 1
    done = (
        "close trainer_state.json + next sibling",
        "close trainer_state.json + exited 0",
        "close trainer_state.json + all closed + quiet + lone",
    )
    commits = "`trainer_state.json` and some silence, or the next checkpoint, or the end"


if __name__ == "__main__":
    main(HfTrainerAlone())
