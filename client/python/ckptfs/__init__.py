# SPDX-License-Identifier: MIT
"""ckptfs from Python: checkpoints that are captured while training goes on.

	import ckptfs
	ckptfs.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "/ckpt/run/step-100.pt")

returns at once where /ckpt is a mount of ckptfs(1); the tensors are copied while the next step computes its gradients,
and the optimizer's step waits for that by itself. What is written is an ordinary file of torch.save, which is there
whole, or not at all.

	path = ckptfs.latest("/ckpt/run")       the newest checkpoint that is committed
	state = ckptfs.load(path)               as torch.load, by several threads
	ckptfs.wait(path, "committed")          until it is on the backing, under its name
	ckptfs.barrier()                        before tensors change elsewhere than in optimizer.step()

torch is imported when it is needed, and needs not be there for `Session`, `latest`, `wait` and `commit`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._lib import CheckpointError, LibraryNotFound, SessionStats
from .resume import abandon, commit, latest, wait
from .session import Session, Source, barrier, session_of

if TYPE_CHECKING:
	from .lazy import register, save
	from .loading import load
	from .safetensors_file import save_file

__version__ = "0.1.0"
__all__ = ["CheckpointError", "LibraryNotFound", "Session", "SessionStats", "Source", "abandon", "barrier", "commit",
	"latest", "load", "register", "save", "save_file", "session_of", "wait"]


def __getattr__(name: str) -> Any:
	"""What needs torch is imported when it is asked for."""
	if name in ("save", "register"):
		from . import lazy # pylint: disable=import-outside-toplevel
		return getattr(lazy, name)
	if name == "save_file":
		from . import safetensors_file # pylint: disable=import-outside-toplevel
		return safetensors_file.save_file
	if name == "load":
		from . import loading # pylint: disable=import-outside-toplevel
		return loading.load
	if name in ("dcp", "hugging_face", "lightning", "megatron", "trainer", "datastates"): # each needs its framework
		return importlib.import_module("." + name, __name__)
	raise AttributeError("module 'ckptfs' has no attribute %r" % name)
