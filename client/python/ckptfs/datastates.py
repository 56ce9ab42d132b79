# SPDX-License-Identifier: MIT
"""The engine that DeepSpeed (`"datastates_ckpt": {...}` in its JSON config) and Kénotron (`checkpointing_engine:
datastates`) import as datastates.CheckpointEngine: so a job becomes lazy by its config alone.

DeepSpeed takes that engine for one whose checkpoints are committed at the next step, and then does not do so (it asks for
what is to be committed, and its own class of 0.19 does not tell): it would never write `latest`. On a mount of ckptfs
`latest` can be written at once, since readers see the old one until the checkpoint that it names is committed; so the
engine tells DeepSpeed that it is like torch.save's."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, Dict, List

from . import lazy, loading
from .resume import wait
from .mounts import in_mount
from .session import Session, barrier, session_at

GIB = 1 << 30


def _config(config: Any) -> Dict[str, Any]:
	"""Its keys: of a dict, or of DeepSpeed's config."""
	inner = getattr(getattr(config, "datastates_config", None), "config", None)
	for found in (inner, config, getattr(config, "__dict__", None)):
		if isinstance(found, dict):
			return dict(found.get("datastates") or found) if isinstance(found.get("datastates", {}), dict) else dict(found)
	return {}


def _adopt(owner: Any) -> None:
	"""DeepSpeed's wrapper of this engine: see above."""
	if not hasattr(owner, "is_decoupled") or not hasattr(owner, "commit_info"):
		return

	def commit(_info: Any) -> bool:
		owner.commit_info = None
		return True

	owner.is_decoupled = lambda: False
	owner.commit = commit


def _deepspeed_modules() -> List[Any]:
	"""What its engines train: the step of the optimizer in them, which the barrier stands before, comes before the
	parameters change."""
	engines = [one for one in gc.get_objects() if any(base.__name__ == "DeepSpeedEngine" for base in type(one).__mro__)]
	return [module for module in (getattr(engine, "module", None) for engine in engines) if module is not None]


class CheckpointEngine:
	"""save, load and wait as DataStates-LLM's engine has them. @config: a dict, or DeepSpeed's: `host_cache_size` (GiB of
	the mount's cache to borrow), `parser_threads` (that copy; default 2); `pin_host_cache` is what ckptfs does anyway."""

	def __init__(self, config: Any = None, rank: int = 0) -> None:
		self.rank = rank
		self.config = _config(config)
		self._paths: List[str] = []
		self._known: set = set()
		_adopt(sys._getframe(1).f_locals.get("self")) # pylint: disable=protected-access

	def _open(self, path: str) -> None:
		directory = os.path.dirname(os.path.abspath(path))
		session = session_at(directory)
		if session is None and in_mount(directory):
			size = self.config.get("host_cache_size")
			session = Session(directory, arena_bytes=int(float(size) * GIB) if size else 0,
				threads=int(self.config.get("parser_threads") or 0))
		if session is not None and id(session) not in self._known:
			self._known = {id(session)}
			session.register(*_deepspeed_modules())

	def save(self, state_dict: Any, path: str) -> bool:
		"""Returns at once; the tensors are captured before the optimizer's next step."""
		self._open(path)
		lazy.save(state_dict, path)
		self._paths.append(os.path.abspath(path))
		return True

	def load(self, path: str, map_location: Any = None) -> Any:
		"""What was saved; of a file of torch.save, too."""
		return loading.load(path, map_location, weights_only=False)

	def wait(self, persist: bool = False) -> bool:
		"""Until what was saved is captured; @persist: until it is durable. CheckpointError: it has failed."""
		barrier(landed=True)
		paths, self._paths = self._paths, []
		for path in paths if persist else ():
			if in_mount(os.path.dirname(path)) and os.path.exists(path): # not removed since
				wait(path, "durable")
		return True
