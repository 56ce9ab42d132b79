# SPDX-License-Identifier: MIT
"""What other programs do for what a view shows: makes Hugging Face files of a checkpoint, in one
process, and prints the seconds without its imports. views.py runs it.

usage: converted.py make-dcp DIR MIB | make-shards DIR MIB | merge DIR OUT | consolidate DIR OUT
"""

import json
import os
import sys
import time
import warnings

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from safetensors.torch import save_file
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

TENSOR_MIB = 8
SHARDS = 4


def make_dcp(path: str, mib: int) -> None:
    """A model, and two moments of each of its tensors, as one rank saves them."""
    state: dict = {"model": {}, "optim": {}}
    for n in range(mib // TENSOR_MIB // 3):
        state["model"][f"layers.{n}.weight"] = torch.randn(2048, TENSOR_MIB * 128)
        for moment in ("exp_avg", "exp_avg_sq"):
            state["optim"][f"layers.{n}.weight.{moment}"] = torch.randn(2048, TENSOR_MIB * 128)
    dcp.save(state, checkpoint_id=path)


def make_shards(path: str, mib: int) -> None:
    """As the ranks of HuggingFaceStorageWriter(save_distributed=True) leave it: rows of each."""
    os.makedirs(path)
    rows = 2048 // SHARDS
    for rank in range(SHARDS):
        names = [f"layers.{n}.weight" for n in range(mib // TENSOR_MIB)]
        tensors = {name: torch.randn(rows, TENSOR_MIB * 128) for name in names}
        places = {name: {"saved_offsets": [rank * rows, 0]} for name in names}
        save_file(
            tensors,
            f"{path}/shard-{rank + 1:05}-model-00001-of-00001.safetensors",
            metadata={"DCP_SHARDING_INFO": json.dumps(places), "DCP_VERSION": "1.0"},
        )


def merge(path: str, out: str) -> None:
    """The recipe that frameworks give."""
    whole = out + "/whole.pt"
    dcp_to_torch_save(path, whole)
    save_file(torch.load(whole)["model"], out + "/model.safetensors")
    os.remove(whole)


def consolidate(path: str, out: str) -> None:
    """torch's own, of the shards that its writer has left."""
    consolidate_safetensors_files(
        path, out, fqn_to_index_mapping=dict.fromkeys(_names(path), 1), num_threads=2
    )


def _names(path: str) -> list[str]:
    first = sorted(name for name in os.listdir(path) if name.endswith(".safetensors"))[0]
    with safe_open(f"{path}/{first}", "pt") as file:
        return list(file.keys())


def main() -> None:
    warnings.simplefilter("ignore")
    what, path, last = sys.argv[1:]
    if what == "make-dcp":
        make_dcp(path, int(last))
    elif what == "make-shards":
        make_shards(path, int(last))
    else:
        start = time.monotonic()
        {"merge": merge, "consolidate": consolidate}[what](path, last)
        print(time.monotonic() - start)


if __name__ == "__main__":
    main()
