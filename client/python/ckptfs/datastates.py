# SPDX-License-Identifier: MIT
"""The engines that DeepSpeed (`"datastates_ckpt": {...}` in its JSON config) and Kénotron
(`checkpointing_engine: datastates`) import as datastates.CheckpointEngine and
datastates.CkptEngine: so a job becomes lazy by its config alone.

DeepSpeed takes that engine for one whose checkpoints are committed at the next step, and then does
not do so (it asks for what is to be committed, and its own class of 0.19 does not tell): it would
never write `latest`. On a mount of ckptfs `latest` can be written at once, since readers see the
old one until the checkpoint that it names is committed; so the engine tells DeepSpeed that it is
like torch.save's."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from typing import Any, Sequence

import torch

from . import hooks, lazy, loading
from ._lib import CheckpointError
from .mounts import in_mount
from .resume import wait
from .session import Session, barrier, before, session_at

GIB = 1 << 30


def _config(config: Any) -> dict[str, Any]:
    """Its keys: of a dict, or of DeepSpeed's config."""
    inner = getattr(getattr(config, "datastates_config", None), "config", None)
    for found in (inner, config, getattr(config, "__dict__", None)):
        if isinstance(found, dict):
            return (
                dict(found.get("datastates") or found)
                if isinstance(found.get("datastates", {}), dict)
                else dict(found)
            )
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


def _deepspeed_modules() -> list[Any]:
    """What its engines train: the step of the optimizer in them, which the barrier stands before,
    comes before the parameters change."""
    engines = [
        one
        for one in gc.get_objects()
        if any(base.__name__ == "DeepSpeedEngine" for base in type(one).__mro__)
    ]
    return [
        module
        for module in (getattr(engine, "module", None) for engine in engines)
        if module is not None
    ]


class CheckpointEngine:
    """save, load and wait as DataStates-LLM's engine has them. @config: a dict, or DeepSpeed's:
    `host_cache_size` (GiB of the mount's cache to borrow), `parser_threads` (that copy; default 2);
    `pin_host_cache` is what ckptfs does anyway."""

    def __init__(self, config: Any = None, rank: int = 0) -> None:
        self.rank = rank
        self.config = _config(config)
        self._paths: list[str] = []
        self._known: set[Any] = set()
        _adopt(sys._getframe(1).f_locals.get("self"))

    def _open(self, path: str) -> None:
        directory = os.path.dirname(os.path.abspath(path))
        session = session_at(directory)
        if session is None and in_mount(directory):
            size = self.config.get("host_cache_size")
            with contextlib.suppress(CheckpointError):  # the save that comes says what is wrong
                session = Session(
                    directory,
                    arena_bytes=int(float(size) * GIB) if size else 0,
                    threads=int(self.config.get("parser_threads") or 0),
                )
        if session is not None and id(session) not in self._known:
            self._known = {id(session)}
            session.register(*_deepspeed_modules())

    def save(self, state_dict: Any, path: str) -> bool:
        """Saves as ckptfs.save: returns at once; the tensors are captured before the optimizer's
        next step."""
        self._open(path)
        lazy.save(state_dict, path)
        self._paths.append(os.path.abspath(path))
        return True

    def load(self, path: str, map_location: Any = None) -> Any:
        """Loads what was saved, or any file of torch.save."""
        return loading.load(path, map_location, weights_only=False)

    def wait(self, persist: bool = False) -> bool:
        """Waits until what was saved is captured; @persist: until it is durable. CheckpointError: a
        save has failed."""
        barrier(landed=True)
        if not persist:
            return True
        paths, self._paths = self._paths, []
        for path in paths:
            if in_mount(os.path.dirname(path)) and os.path.exists(path):  # not removed since
                wait(path, "durable")
        return True


class CkptEngine:
    """What Kénotron's engine is made of: tensors that are to be at places of files. It names them
    before it makes the file, which it then truncates; so they are written when it names those of
    the next file, waits, or an optimizer steps. @host_cache_size: bytes of the mount's cache to
    borrow."""

    def __init__(self, host_cache_size: int = 0, gpu_id: int = 0, rank: int = 0) -> None:
        self.cache = int(host_cache_size)
        self._waiting: list[tuple[Any, int, str]] = []
        self._failure: Exception | None = None
        self._lock = threading.RLock()
        hooks.install()
        before.append(self._write_before_step)

    def async_save(self, tensors: Sequence[tuple[Any, Any, int, str]]) -> None:
        """Each: (version, tensor, offset, path)."""
        with self._lock:
            self._write()
            self._waiting += [
                (tensor.detach(), int(at), os.path.abspath(path)) for _, tensor, at, path in tensors
            ]

    def _write(self) -> None:
        with self._lock:
            files: dict[str, list[tuple[Any, int]]] = {}
            for tensor, at, path in self._waiting:
                files.setdefault(path, []).append((tensor, at))
            self._waiting = []
            for path, tensors in files.items():
                self._write_file(path, tensors)

    def _write_file(self, path: str, tensors: list[tuple[Any, int]]) -> None:
        directory = os.path.dirname(path)
        if in_mount(directory) and session_at(directory) is None:
            with contextlib.suppress(CheckpointError):
                Session(directory, arena_bytes=self.cache)
        session, _ = lazy.session_for(path)
        file = lazy.Writer(session, None if session else set())
        for i, (tensor, at) in enumerate(tensors):
            file.add_tensor(tensor.contiguous(), f"{os.path.basename(path)}, tensor {i}", at)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            file.write(fd)
        finally:
            os.close(fd)

    def _write_before_step(self) -> None:
        """It keeps no step from being made: `wait` raises what it meets."""
        try:
            self._write()
        except Exception as error:
            self._failure = error

    def load(self, tensors: Sequence[tuple[Any, Any, int, str]]) -> None:
        """Fills each: (version, tensor, offset, path)."""
        for _, tensor, at, path in tensors:
            straight = tensor.device.type == "cpu" and tensor.is_contiguous()
            here = tensor if straight else torch.empty(tensor.shape, dtype=tensor.dtype)
            loading.read_into(
                path,
                here.untyped_storage(),
                int(at),
                here.storage_offset() * here.element_size(),
                here.nbytes,
            )
            if here is not tensor:
                tensor.copy_(here)

    def wait(self) -> None:
        """Waits until all is captured. CheckpointError, OSError: a save has failed."""
        self._write()
        failure, self._failure = self._failure, None
        if failure:
            raise failure
        barrier(landed=True)

    def shutdown(self) -> None:
        """Waits as `wait` does, and saves no more from then on."""
        if self._write_before_step in before:
            before.remove(self._write_before_step)
        self.wait()
