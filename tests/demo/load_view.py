# SPDX-License-Identifier: MIT
"""Loads the weights of the newest checkpoint of train_dcp.py as safetensors, from its view; and
says whether they are those that torch.distributed.checkpoint loads from the checkpoint itself.

usage: load_view.py DIR

safetensors knows of no ckptfs: the view is a file to it.
"""

import os
import subprocess
import sys
import time
import warnings

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

from train_dcp import make_model


def main(directory: str) -> None:
    warnings.simplefilter("ignore")
    command = os.environ.get("CKPTFS", "ckptfs")
    path = subprocess.check_output([command, "latest", directory], text=True).strip()
    model = make_model()
    at = time.perf_counter()
    model.load_state_dict(load_file(f"{path}/.view/strip=model./model.safetensors"))
    seconds = time.perf_counter() - at
    wanted = {"model": make_model().state_dict()}
    dcp.load(wanted, checkpoint_id=path)
    for name, tensor in model.state_dict().items():
        if not torch.equal(tensor, wanted["model"][name]):
            sys.exit(f"{name} differs")
    print(f"loaded {len(wanted['model'])} tensors of {os.path.basename(path)} in {seconds:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1])
