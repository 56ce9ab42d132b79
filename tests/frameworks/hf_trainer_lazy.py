#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""The Trainer of transformers, save_total_limit=3, with ckptfs.trainer.Callback: weights and
the state of its optimizer are captured lazily."""

from harness import enter, main

enter("transformers", "accelerate", "torch", "safetensors")
from harness.lazily import Lazily
from hf_trainer import HfTrainer

from ckptfs.trainer import Callback


class HfTrainerLazily(Lazily, HfTrainer):
    lazily = "`callbacks=[ckptfs.trainer.Callback()]`"

    def callbacks(self):
        return [Callback()]


if __name__ == "__main__":
    main(HfTrainerLazily())
