#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""DeepSpeed on a CPU, ZeRO 1: each rank writes its part of the optimizer, rank 0 the model, and
then `latest`, which no barrier precedes. Also the base of the other stages."""

from harness import Framework, enter, main

enter("deepspeed", "torch")
import glob

import deepspeed
import torch
import torch.distributed as dist

import training

# It would compile one, for collectives of an inference.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def tensors(value):
    """Those in it; DeepSpeed's own objects beside them say how it is configured."""
    if isinstance(value, dict):
        return {str(key): tensors(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [tensors(one) for one in value]
    return value if isinstance(value, (torch.Tensor, int, float, str)) else None


class Engine(training.Training):
    def __init__(self, run, stage, more):
        super().__init__(run)
        config = {
            "train_micro_batch_size_per_gpu": 4,
            "zero_allow_untested_optimizer": True,
            "steps_per_print": 1 << 30,
            "zero_optimization": {
                "stage": stage,
                "reduce_scatter": False,
                "reduce_bucket_size": 200000,
                "allgather_bucket_size": 200000,
                "stage3_param_persistence_threshold": 0,
            },
            **more,
        }
        self.engine = deepspeed.initialize(
            model=self.model, optimizer=self.optimizer, config=config
        )[0]
        self.model, self.optimizer = self.engine, self.engine.optimizer

    def start_group(self):
        deepspeed.init_distributed("gloo", verbose=False)

    def state(self):
        """What each rank has of it."""
        parts = [None] * self.world
        dist.all_gather_object(parts, tensors(self.engine.optimizer.state_dict()))
        return {"optimizer": parts, "step": self.step, "random": torch.get_rng_state()}

    def once(self):
        batch = torch.randn(4 * self.world, self.width)[self.rank :: self.world]
        loss = (self.engine(batch) - batch.roll(1, 1)).square().mean()
        self.engine.backward(loss)
        self.engine.step()
        self.step += 1


class DeepSpeed(Framework):
    name = "DeepSpeed, ZeRO 1"
    package = "deepspeed"
    stage = 1
    more = {}  # of its config
    pattern = r"global_step(\d+)"
    done = "close ../latest + every rank *optim_states.pt"
    commits = "`latest`, and `*optim_states.pt` of every rank"

    def pointer(self, directory):
        try:
            with open(directory + "/latest", encoding="utf-8") as file:
                return f"{directory}/{file.read()}"
        except FileNotFoundError:
            return None

    def resumes(self, directory):
        named = self.pointer(directory)
        return int(named.rpartition("global_step")[2]) if named else 0

    def load(self, path):
        parts = [
            torch.load(one, weights_only=False)["optimizer_state_dict"]
            for one in sorted(glob.glob(path + "/*optim_states.pt"))
        ]
        model = torch.load(sorted(glob.glob(path + "/*model_states.pt"))[0], weights_only=False)
        return {
            "optimizer": tensors(parts),
            "step": model["global_steps"],
            "random": model["random"],
        }

    def train(self, run):
        t = Engine(run, self.stage, self.more)
        path, client = t.engine.load_checkpoint(run.dir)
        if path:
            t.step = t.engine.global_steps
            torch.set_rng_state(client["random"])

        def save(t):
            t.engine.save_checkpoint(run.dir, client_state={"random": torch.get_rng_state()})
            if run.rank == 0:
                training.rotate(self, run)
            run.saved(t.step)

        t.go(run, save)


if __name__ == "__main__":
    main(DeepSpeed())
