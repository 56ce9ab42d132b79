#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""dist_checkpointing of Megatron-core in the format torch_dist: processes that each rank forks
write the parts; then come .metadata, metadata.json and, behind a barrier, the tracker file, which
Megatron-LM's training loop writes as is done here."""

from harness import Framework, enter, main

enter("megatron-core", "torch")
import os

import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing import ShardedTensor

import training

TRACKER = "/latest_checkpointed_iteration.txt"

# It asks CUDA where a flag is to be, and to have done what it was told: all that hinders it
# without.
torch.cuda.current_device = lambda: "cpu"
torch.cuda.synchronize = lambda *_: None


class Parts(training.Flat):
    def parts(self):
        """Of what can be divided each rank has as many rows, of the rest the first rank has all;
        what is no tensor all have alike."""
        state = self.state()
        random = state.pop("random")

        def part(key, tensor):
            if tensor.dim() and tensor.shape[0] % self.world == 0:
                return ShardedTensor.from_rank_offsets(
                    key, tensor.chunk(self.world)[self.rank], (0, self.rank, self.world)
                )
            return ShardedTensor.from_rank_offsets(key, tensor, replica_id=self.rank)

        return dict({key: part(key, tensor) for key, tensor in state.items()}, random=random)


class Megatron(Framework):
    name = "Megatron-core, dist_checkpointing"
    package = "megatron-core"
    pattern = r"iter_(\d{7})"
    done = "close ../latest_checkpointed_iteration.txt"
    steps = 12  # it forks four processes to save: seconds
    commits = "the close of `latest_checkpointed_iteration.txt`"
    costs = (1, 0, 1)

    def pointer(self, directory):
        try:
            with open(directory + TRACKER, encoding="utf-8") as file:
                return f"{directory}/iter_{int(file.read()):07}"
        except FileNotFoundError:
            return None

    def resumes(self, directory):
        named = self.pointer(directory)
        return int(named[-7:]) if named else 0

    def load(self, path):
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        random = dist_checkpointing.load_common_state_dict(path)["random"]
        return dict(dist_checkpointing.load_plain_tensors(path), random=random)

    def train(self, run):
        def save(t):
            path = f"{run.dir}/iter_{t.step:07}"
            if run.rank == 0:
                os.makedirs(path, exist_ok=True)
            dist.barrier()
            dist_checkpointing.save(t.parts(), path)
            dist.barrier()
            if run.rank == 0:
                with open(run.dir + TRACKER, "w", encoding="utf-8") as file:
                    file.write(str(t.step))
                training.rotate(self, run)
            run.saved(t.step)

        t = Parts(run)
        named = self.pointer(run.dir)
        if named:
            t.take(self.load(named))
        t.go(run, save)


if __name__ == "__main__":
    main(Megatron())
