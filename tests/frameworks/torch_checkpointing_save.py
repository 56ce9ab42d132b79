#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1200
"""torch_checkpointing, the successor of DCP, of a model sharded by fully_shard. Every rank writes
its parts into tmp_NAME, rank 0 adds metadata.pkl, all ranks pass a barrier, and rank 0 renames the
directory to NAME."""

import os
import types

from harness import Framework, enter, main, newest

enter("torch", "torch_checkpointing")
import torch.distributed as dist
from torch_checkpointing import CheckpointManager, ItemSpec, SyncCheckpointSaverConfig
from torch_checkpointing.default_resharder import DefaultResharder
from torch_checkpointing.metadata_manager import DefaultMetadataManager
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

import training


def _gather(_, data, process_group=None):
    """Without CUDA: the original gathers what each rank knows by tensors on a GPU."""
    gathered = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(gathered, data, group=process_group)
    return dict(enumerate(gathered))


DefaultMetadataManager._all_gather_pickled_data = _gather


class Alone(training.Sharded):
    """The same model in one process, which has all of every tensor."""

    def start_group(self):
        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class TorchCheckpointing(Framework):
    name = "torch_checkpointing, save"
    package = "torch_checkpointing"
    done = "rename ."
    commits = "the rename of the directory to its final name"
    lazily = "no lazy form yet: it stages what it is given itself"
    scale = 1

    saver = SyncCheckpointSaverConfig
    # 0.1.1 writes metadata.pkl with a manager's first synchronous save alone (metadata_manager.py,
    # the cache).
    at_once = True

    def manager(self, directory, saver=SyncCheckpointSaverConfig):
        """Its writes are O_DIRECT and not aligned by default: a mount takes them, ext4 answers
        EINVAL."""
        is_mount = os.major(os.stat(directory).st_dev) == 0
        sharded = {name: ItemSpec(resharder=DefaultResharder()) for name in ("model", "optimizer")}
        return CheckpointManager(
            CheckpointManager.Config(
                items=sharded,
                save=saver(),
                storage_config=LocalFileSystemStorageConfig(use_direct_io=is_mount),
            )
        )

    def load(self, path):
        alone = Alone(types.SimpleNamespace(rank=0, world=0, scale=self.scale))
        manager = self.manager(path)
        try:
            return dict(manager.load(path, into=alone.state()))
        finally:
            manager.close()

    def train(self, run):
        self.scale = run.scale
        t = training.Sharded(run)
        manager = self.manager(run.dir, self.saver)
        saving = []

        def finish():
            while saving:
                step, future = saving.pop()
                if future is not None:
                    future.result()
                dist.barrier()  # rank 0 has renamed
                if run.rank == 0:
                    training.rotate(self, run)
                run.saved(step)

        def save(t):
            nonlocal manager
            finish()
            if self.at_once:
                manager.close()
                manager = self.manager(run.dir, self.saver)
            saving.append((t.step, manager.save(f"{run.dir}/step-{t.step}", t.state())))
            run.returned(t.step)
            if self.at_once or t.step == run.steps:
                finish()

        found = self.found(run.dir)
        if found:
            t.take(dict(manager.load(found[newest(found)], into=t.state())))
        t.go(run, save)
        manager.close()


if __name__ == "__main__":
    main(TorchCheckpointing())
