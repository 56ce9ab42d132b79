# SPDX-License-Identifier: MIT
"""ckptfs from Python: checkpoints that are captured while training goes on.

    import ckptfs
    ckptfs.require("/ckpt")     an error, if no ckptfs is mounted there
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    ckptfs.save(state, "/ckpt/run/step-100.pt")

`save` returns at once. The tensors are copied while the next step computes its gradients;
optimizer.step() waits by itself until that is done. The file is that of torch.save, and appears
under its name whole or not at all.

    path = ckptfs.latest("/ckpt/run")       the newest checkpoint that is committed
    state = ckptfs.load(path)               as torch.load, by several threads
    ckptfs.wait(path)                       until it is on the backing, under its name
    ckptfs.barrier()                        before tensors change elsewhere than in optimizer.step()
    with ckptfs.open("/ckpt/run/x.ckpt"):   any file, whole or not at all

torch is imported when it is needed. `Session`, `open`, `require`, `latest`, `wait` and `commit` do
without. README.md beside the source of this package has all of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._lib import CheckpointError, LibraryNotFound, SessionStats
from .files import WholeFile, open
from .mounts import require
from .resume import abandon, commit, latest, wait
from .session import Session, Source, barrier, session_of

if TYPE_CHECKING:
    from .ahead import register_object
    from .lazy import register, save
    from .loading import load
    from .safetensors_file import save_file

__version__ = "0.1.0"
__all__ = [
    "CheckpointError",
    "LibraryNotFound",
    "Session",
    "SessionStats",
    "Source",
    "WholeFile",
    "abandon",
    "barrier",
    "commit",
    "latest",
    "load",
    "open",
    "register",
    "register_object",
    "require",
    "save",
    "save_file",
    "session_of",
    "wait",
]


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is asked for."""
    if name in ("save", "register"):
        from . import lazy

        return getattr(lazy, name)
    if name == "register_object":
        from . import ahead

        return ahead.register_object
    if name == "save_file":
        from . import safetensors_file

        return safetensors_file.save_file
    if name == "load":
        from . import loading

        return loading.load
    if name == "loader":
        return importlib.import_module("." + name, __name__)
    # each needs its framework
    if name in ("dcp", "hugging_face", "lightning", "megatron", "trainer", "datastates"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'ckptfs' has no attribute {name!r}")
