#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""The Trainer of transformers: two ranks, of which each writes the state of its random numbers,
save_total_limit=3, and resume_from_checkpoint."""

import json

from harness import Framework, enter, main

enter("transformers", "accelerate", "torch", "safetensors")
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

CONFIG = {"vocab_size": 256, "n_positions": 16, "n_embd": 128, "n_layer": 2, "n_head": 2}


def state_of(model, optimizer, step):
    parts = optimizer["state"], [group["lr"] for group in optimizer["param_groups"]]
    return {"model": model.state_dict(), "optimizer": parts, "step": step}


class Report(TrainerCallback):
    def __init__(self, run):
        self.run = run

    def _state(self, state, kwargs):
        model = getattr(kwargs["model"], "module", kwargs["model"])
        return state.global_step, state_of(
            model, kwargs["optimizer"].state_dict(), state.global_step
        )

    def on_train_begin(self, args, state, control, **kwargs):
        self.run.began(*self._state(state, kwargs))

    def on_step_end(self, args, state, control, **kwargs):
        if control.should_save:
            self.run.saving(*self._state(state, kwargs))

    def on_save(self, args, state, control, **kwargs):
        self.run.saved(state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        self.run.ended(*self._state(state, kwargs))


class HfTrainer(Framework):
    name = "transformers Trainer, save_total_limit=3"
    package = "transformers"
    keep = 3
    alone = True
    pattern = r"checkpoint-(\d+)"
    done = "close trainer_state.json + every rank rng_state_{rank}.pth"
    commits = "`trainer_state.json`, and `rng_state_N.pth` of every rank"

    def callbacks(self):
        return []

    def load(self, path):
        model = GPT2LMHeadModel.from_pretrained(path)
        with open(path + "/trainer_state.json", encoding="utf-8") as file:
            step = json.load(file)["global_step"]
        return state_of(model, torch.load(path + "/optimizer.pt", weights_only=True), step)

    def train(self, run):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        data = [{"input_ids": ids, "labels": ids} for ids in torch.randint(256, (64, 16))]
        args = TrainingArguments(
            output_dir=run.dir,
            use_cpu=True,
            ddp_backend="gloo" if run.world else None,
            seed=1,
            max_steps=run.steps,
            save_steps=run.every,
            save_strategy="steps",
            save_total_limit=self.keep,
            per_device_train_batch_size=2,
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )
        model = GPT2LMHeadModel(GPT2Config(**dict(CONFIG, n_embd=CONFIG["n_embd"] * run.scale)))
        trainer = Trainer(
            model=model, args=args, train_dataset=data, callbacks=[Report(run), *self.callbacks()]
        )
        trainer.train(resume_from_checkpoint=get_last_checkpoint(run.dir))


if __name__ == "__main__":
    main(HfTrainer())
