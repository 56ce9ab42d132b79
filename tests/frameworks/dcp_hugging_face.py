#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""torch.distributed.checkpoint with HuggingFaceStorageWriter: each rank writes safetensors files
below sharded/, then rank 0 puts them together into whole ones, and the index is written last."""

from harness import enter, main

enter("torch", "safetensors")
import glob

import torch
from safetensors.torch import load_file
from torch.distributed import checkpoint
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)

import training
from dcp import Dcp


class Flat(training.Sharded):
    """Its files have tensors of floats only, so the state is a list of these."""

    def state(self):
        state = super().state()
        flat = {"model." + key: value for key, value in state["model"].items()}
        for key, values in state["optimizer"]["state"].items():
            flat.update(
                {
                    f"optimizer.{key}.{name}": value.reshape(-1) if name == "step" else value
                    for name, value in values.items()
                }
            )
        return dict(
            flat, step=torch.tensor([float(self.step)]), random=torch.get_rng_state().float()
        )

    def take(self, state):
        own = super().state()
        own["model"] = {key: state["model." + key] for key in own["model"]}
        for key, values in own["optimizer"]["state"].items():
            for name in values:
                value = state[f"optimizer.{key}.{name}"]
                values[name] = value.reshape(()) if name == "step" else value
        super().take(dict(own, step=int(state["step"]), random=state["random"].byte()))


class DcpHuggingFace(Dcp):
    name = "DCP, HuggingFaceStorageWriter"
    done = "close *.index.json + all closed"
    commits = "the close of `model.safetensors.index.json`"
    costs = (2, 0, 1)
    training = Flat

    writer = HuggingFaceStorageWriter

    def setup(self, run):
        def begin(state, path):
            names = {name: 1 + i % 2 for i, name in enumerate(sorted(state))}
            checkpoint.save(
                state,
                storage_writer=self.writer(
                    path=path,
                    fqn_to_index_mapping=names,
                    save_distributed=True,
                    enable_consolidation=True,
                ),
            )

        return begin, lambda: None

    def fill(self, state, path):
        checkpoint.load(state, storage_reader=HuggingFaceStorageReader(path=path))

    def load(self, path):
        state = {}
        for one in sorted(glob.glob(path + "/model-*.safetensors")):
            state.update(load_file(one))
        return state


if __name__ == "__main__":
    main(DcpHuggingFace())
