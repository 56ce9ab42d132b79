#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""Lightning: ModelCheckpoint with the best two (top-k) and last.ckpt, by two ranks; each is written
in TMPDIR, outside of the mount, and copied to its place."""

from harness import Framework, enter, main

enter("lightning", "torch")
import os

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

WIDTH = 160


def state_of(model, optimizer, step):
    return {"model": dict(model), "optimizer": optimizer["state"], "step": step}


class Model(lightning.LightningModule):
    def __init__(self, width):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
        )

    def training_step(self, batch, _):
        generator = torch.Generator().manual_seed(self.global_step)
        x = batch[0] + torch.randn(batch[0].shape, generator=generator)
        loss = (self.layers[3](self.layers[1](self.layers[0](x))) - x).square().mean()
        self.log("upward", float(self.global_step + 1))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Report(lightning.Callback):
    def __init__(self, run):
        self.run = run

    def _state(self, trainer, module):
        optimizer = trainer.optimizers[0].state_dict()
        return trainer.global_step, state_of(module.state_dict(), optimizer, trainer.global_step)

    def on_train_start(self, trainer, pl_module):
        self.run.began(*self._state(trainer, pl_module))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        """Before ModelCheckpoint's, which always comes last."""
        if trainer.global_step % self.run.every == 0:
            self.run.saving(*self._state(trainer, pl_module))

    def on_train_end(self, trainer, pl_module):
        self.run.ended(*self._state(trainer, pl_module))


class Saved(ModelCheckpoint):
    """As it is, and tells that it has saved."""

    def __init__(self, run, **options):
        super().__init__(**options)
        self.run = run

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if trainer.global_step % self.run.every == 0:
            self.run.saved(trainer.global_step)


class Lightning(Framework):
    name = "Lightning, ModelCheckpoint"
    package = "lightning"
    files = True
    alone = True
    pattern = r"epoch=\d+-step=(\d+)\.ckpt"
    commits = "the last close of the file (a copy from TMPDIR)"
    costs = (2, 2, 1)
    switch = '`TMPDIR` inside of the mount, `save_last="link"`'
    last = True
    plugins = None

    def load(self, path):
        saved = torch.load(path, weights_only=True)
        return state_of(saved["state_dict"], saved["optimizer_states"][0], saved["global_step"])

    def resumes(self, directory):
        """last.ckpt is a copy, and written after what it is a copy of."""
        last = directory + "/last.ckpt"
        return self.load(last)["step"] if os.path.exists(last) else 0

    def pointer(self, directory):
        assert self.resumes(directory) in [0, *self.found(directory)] or not self.found(directory)

    def train(self, run):
        torch.set_num_threads(1)
        width = WIDTH * run.scale
        lightning.seed_everything(1, verbose=False)
        keep = Saved(
            run,
            dirpath=run.dir,
            every_n_train_steps=run.every,
            save_top_k=self.keep,
            monitor="upward",
            mode="max",
            save_last=self.last,
        )
        data = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.ones(256, width)), batch_size=4
        )
        here = int(os.environ["LOCAL_WORLD_SIZE"])
        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=here,
            num_nodes=run.world // here,
            strategy="ddp",
            max_steps=run.steps,
            callbacks=[keep, Report(run)],
            plugins=self.plugins,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=run.dir,
        )
        last = run.dir + "/last.ckpt"
        trainer.fit(Model(width), data, ckpt_path=last if os.path.exists(last) else None)


class LightningInside(Lightning):
    """With TMPDIR inside of the mount, from where a file is renamed; and last.ckpt a link."""

    name = "Lightning, ModelCheckpoint, with both set"
    commits = "the rename to its name (from TMPDIR)"
    costs = (1, 0, 1)
    switch = ""
    last = "link"

    def train(self, run):
        os.environ["TMPDIR"] = os.path.dirname(run.dir) + "/tmp"
        os.makedirs(os.environ["TMPDIR"], exist_ok=True)
        super().train(run)


Lightning.switched = LightningInside

if __name__ == "__main__":
    main(Lightning())
