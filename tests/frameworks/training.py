# SPDX-License-Identifier: MIT
"""A model that is trained by hand, for frameworks that only save: small, and the same in every
run."""

import os
import shutil

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

WIDTH = 160


class Training:
    """Of several ranks the gradients are averaged, so that all have one state, which is
    .state()."""

    def __init__(self, run):
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(1)
        self.rank, self.world, self.step, self.width = run.rank, run.world, 0, WIDTH * run.scale
        self.start_group()
        self.model = nn.Sequential(
            nn.Linear(self.width, 2 * self.width), nn.GELU(), nn.Linear(2 * self.width, self.width)
        )
        self.shard()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def start_group(self):
        if self.world:
            dist.init_process_group("gloo")

    def shard(self):
        pass

    def state(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "random": torch.get_rng_state(),
        }

    def take(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        torch.set_rng_state(state["random"])

    def once(self):
        batch = torch.randn(4 * max(self.world, 1), self.width)[self.rank :: max(self.world, 1)]
        loss = (self.model(batch) - batch.roll(1, 1)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.average()
        self.optimizer.step()
        self.step += 1

    def average(self):
        for parameter in self.model.parameters() if self.world else ():
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.world

    def go(self, run, save):
        """From where it is to the end; save(self) after every run.every steps."""
        run.began(self.step, self.state())
        while self.step < run.steps:
            self.once()
            if self.step % run.every == 0:
                run.saving(self.step, self.state())
                save(self)
        run.ended(self.step, self.state())
        if self.world:
            dist.destroy_process_group()


class Flat(Training):
    """Its files have tensors only, so the state is a list of these."""

    def state(self):
        state = super().state()
        flat = {"model." + key: value for key, value in state["model"].items()}
        for key, values in state["optimizer"]["state"].items():
            flat.update({f"optimizer.{key}.{name}": value for name, value in values.items()})
        return dict(flat, step=torch.tensor(self.step), random=state["random"])

    def take(self, state):
        own = super().state()
        values = {}
        for key, value in state.items():
            if key.startswith("optimizer."):
                _, number, name = key.split(".", 2)
                values.setdefault(int(number), {})[name] = value.clone()
        super().take(
            {
                "model": {key: state["model." + key] for key in own["model"]},
                "step": int(state["step"]),
                "optimizer": dict(own["optimizer"], state=values),
                "random": state["random"],
            }
        )


class Sharded(Training):
    """The same with fully_shard: each rank has a part of everything."""

    def shard(self):
        for layer in self.model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        fully_shard(self.model)

    def state(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {
            "model": model,
            "optimizer": optimizer,
            "step": self.step,
            "random": torch.get_rng_state(),
        }

    def take(self, state):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.step = state["step"]
        torch.set_rng_state(state["random"])

    def average(self):
        pass


def rotate(framework, run):
    """As a script keeps the newest few."""
    for _, path in sorted(framework.found(run.dir).items())[: -framework.keep]:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
