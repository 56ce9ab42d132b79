# SPDX-License-Identifier: MIT
"""torch.distributed.checkpoint, lazily:

    from torch.distributed import checkpoint
    checkpoint.save(state, storage_writer=ckptfs.dcp.Writer("/ckpt/run/step-100"))
    checkpoint.load(state, storage_reader=ckptfs.dcp.Reader("/ckpt/run/step-100"))

What is written is what FileSystemWriter writes, for all of DCP's readers. `save` returns when the
ranks have agreed on who writes what, and no tensor has been copied. With async_save in a thread,
which copies all of them first otherwise, they agree meanwhile; a process that writes
(AsyncCheckpointerType.PROCESS) is given copies, and nothing of that is lazy."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import ctypes
import errno
import io
import logging
import os
import threading
import time
from typing import Any, Callable

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import fates, known, lazy, loading, skeleton
from ._lib import CheckpointError
from .mounts import in_mount
from .session import Session, Shape, before

log = logging.getLogger("ckptfs")

ALIGN = 64
THREADS = 4
HEADER = 4096  # what torch.save writes before and behind a tensor has fewer bytes
HAND_OVER_S, LOOK_S = 120, 0.1
LATE = (
    "async_save's thread has failed, or has not written the tensors "
    f"within {HAND_OVER_S} s: that checkpoint fails"
)

_plans: dict[Any, skeleton.Skeleton] = {}  # of tensors of a shape and type


def _plan_of(tensor: Any) -> skeleton.Skeleton:
    key = (tensor.dtype, tuple(tensor.shape))
    if key not in _plans:
        # The empty tensor is memory that nobody touches.
        _plans[key] = skeleton.plan(torch.empty(tensor.shape, dtype=tensor.dtype))
    return _plans[key]


def _shape_of(item: Any, tensor: Any) -> Shape | None:
    """Which part of which tensor @item is, as the planner says. None: it does not fit @tensor."""
    data = item.tensor_data
    dtype = known.type_of(tensor)
    if data is None or dtype is None or tuple(data.chunk.sizes) != tuple(tensor.shape):
        return None
    return Shape(dtype, tuple(data.size), tuple(data.chunk.offsets), tuple(data.chunk.sizes))


def _saved(tensor: Any) -> bytes:
    """As FileSystemWriter does."""
    tensor = tensor.cpu()
    if tensor.untyped_storage().size() != tensor.nbytes:
        tensor = tensor.clone()
    file = io.BytesIO()
    skeleton.torch_save(tensor, file)
    return file.getvalue()


class _HandOver:
    """What the thread of async_save has still to hand over while training goes on: a barrier waits
    for that first."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None  # that hands it over, when that is known
        # The stream that has produced it.
        self.stream = torch.cuda.current_stream() if torch.cuda.is_initialized() else None
        self._done, self._late = threading.Event(), False
        before.append(self.wait)

    def wait(self) -> None:
        """Waits a bounded time; after that the checkpoint fails, and the step is made."""
        end = time.monotonic() + HAND_OVER_S
        while not self._done.wait(LOOK_S) and time.monotonic() < end:
            if self.thread and not self.thread.is_alive():
                break  # without: it has failed
        self._late = not self._done.is_set()
        if self._late:
            log.error("%s", LATE)
        self._forget()

    def done(self) -> None:
        self._done.set()
        self._forget()
        if self._late:
            raise CheckpointError(errno.ESTALE, LATE)

    def _forget(self) -> None:
        if self.wait in before:
            before.remove(self.wait)


def _copied(value: Any, is_shared: Callable[[Any], bool]) -> Any:
    """Of a state_dict; tensors that are shared are the same in it."""
    if isinstance(value, torch.Tensor) and not hasattr(value, "local_shards"):
        return (
            value
            if is_shared(value)
            else value.detach().clone()
            if value.device.type == "cpu"
            else value.detach().cpu()
        )
    if isinstance(value, dict):
        return {key: _copied(one, is_shared) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(one, is_shared) for one in value)
    return copy.deepcopy(value)


class _Staged(dict):  # type: ignore[type-arg]
    """A state_dict that shares its tensors with what is trained. It is sent to another process as
    copies."""

    hand_over: _HandOver

    def __reduce__(self) -> Any:
        state = _copied(dict(self), lambda tensor: False)
        self.hand_over.done()
        return dict, (state,)


class Writer(FileSystemWriter):
    """Takes the arguments of FileSystemWriter, but does not sync unless sync_files=True: the commit
    does. Parameters, the state of known optimizers and what was registered are captured lazily (see
    ckptfs.save), in a file of each rank; all else is written at once. On another filesystem, or
    with extensions or another format, it is FileSystemWriter."""

    _hand_over: _HandOver | None = None
    _sent = False

    def __init__(self, path: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) < 2 and in_mount(os.path.dirname(os.path.abspath(path))):
            kwargs.setdefault("sync_files", False)
        super().__init__(path, *args, **kwargs)

    def stage(self, state_dict: Any) -> Any:
        """What async_save saves: no copy of what is captured lazily."""
        session, why = self._session_for(self.path)
        if why:
            return super().stage(state_dict)
        file = lazy.Writer(session)
        staged = _Staged(
            _copied(state_dict, lambda tensor: all(map(file.is_lazy, known.tensors_in(tensor))))
        )
        self._hand_over = staged.hand_over = _HandOver()
        return staged

    def __getstate__(self) -> dict[str, Any]:
        """For another process."""
        return dict(self.__dict__, _hand_over=None, _sent=True)

    def set_up_storage_writer(self, *args: Any, **kwargs: Any) -> None:
        if self._hand_over:
            self._hand_over.thread = threading.current_thread()
        super().set_up_storage_writer(*args, **kwargs)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        hand_over, self._hand_over = self._hand_over, None
        if hand_over is None:
            return self._write_data_now(plan, planner)
        try:
            stream = hand_over.stream
            with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
                return self._write_data_now(plan, planner)
        finally:
            hand_over.done()

    def _write_data_now(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        session, why = self._session_for(os.path.join(self.path, "x"))
        if why:
            lazy.say_once(self.path, why)
            return super().write_data(plan, planner)
        assert session is not None
        fates.raise_first()
        name = f"{plan.storage_data.prefix}0.distcp"
        file = lazy.Writer(session)
        results, at = [], 0
        for item in sorted(plan.items, key=lambda item: item.type != WriteItemType.BYTE_IO):
            size = self._add(file, item, planner.resolve_data(item), at)
            results.append(WriteResult(item.index, size, _StorageInfo(name, at, size)))
            at += -(-size // ALIGN) * ALIGN
        lazy.write_to_path(file, os.path.join(self.path, name))
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def _session_for(self, path: Any) -> tuple[Session | None, str]:
        """The session of the mount that @path lies in, or why there is none."""
        why = self._why_not()
        return (None, why) if why else lazy.session_for(path)

    def _why_not(self) -> str:
        if self._sent:
            return "another process is given copies of the tensors"
        if getattr(getattr(self, "transforms", None), "extensions", ()):
            return "extensions change the bytes"
        if (
            getattr(getattr(self, "serialization_format", None), "value", "torch_save")
            != "torch_save"
        ):
            return "another format than that of torch.save"
        return skeleton.available()

    def _add(self, file: lazy.Writer, item: Any, data: Any, at: int) -> int:
        """At @at of the file; its size."""
        if item.type == WriteItemType.BYTE_IO:
            file.parts.append((at, data.getvalue()))
            return len(data.getvalue())
        tensor = data.detach()
        if not lazy.is_plain(tensor):
            saved = _saved(tensor)
            file.parts.append((at, saved))
            return len(saved)
        plan = _plan_of(tensor)
        file.parts += [(at + off, part) for off, part in plan.parts]
        for hole, _ in plan.holes:  # none of one without elements
            file.add_tensor(tensor, item.index.fqn, at + hole, _shape_of(item, tensor), part=True)
        return plan.size


class Reader(FileSystemReader):
    """A FileSystemReader that reads several tensors at a time (@threads), and of each only what
    this rank wants, straight to its place."""

    def __init__(self, path: Any, *args: Any, threads: int = THREADS, **kwargs: Any) -> None:
        super().__init__(path, *args, **kwargs)
        self.threads = threads

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        stored = [self.storage_data[item.storage_index] for item in plan.items]
        if any(getattr(info, "transform_descriptors", None) for info in stored) or not hasattr(
            os, "preadv"
        ):
            return super().read_data(plan, planner)
        fds = {}
        try:
            for name in {info.relative_path for info in stored}:
                fds[name] = os.open(os.path.join(self.path, name), os.O_RDONLY | os.O_CLOEXEC)
            with concurrent.futures.ThreadPoolExecutor(self.threads, "ckptfs-load") as pool:
                jobs = [
                    pool.submit(_read, fds[info.relative_path], info, item, planner)
                    for item, info in zip(plan.items, stored)
                ]
                for job in jobs:
                    job.result()
        finally:
            for fd in fds.values():
                os.close(fd)
        future: Future[None] = Future()
        future.set_result(None)
        return future


def _bytes(fd: int, at: int, size: int) -> bytearray:
    data = bytearray(size)
    _fill(fd, at, memoryview(data))
    return data


def _fill(fd: int, at: int, view: memoryview) -> None:
    while view.nbytes:
        n = os.preadv(fd, [view], at)
        if n == 0:
            raise EOFError(f"it ends at {at}, within a tensor")
        view, at = view[n:], at + n


class _Slice(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, fd: int, begin: int, size: int) -> None:
        super().__init__()
        self.fd, self.begin, self.size, self.at = fd, begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")[: max(self.size - self.at, 0)]
        n = os.preadv(self.fd, [view], self.begin + self.at) if view.nbytes else 0
        self.at += n
        return n


def _stored(fd: int, info: Any) -> tuple[Any, int] | None:
    """A stored tensor whose bytes were not read, and where in the file its storage is; None: it is
    stored in another way."""
    if not hasattr(torch.serialization, "skip_data"):
        return None
    file = io.BufferedReader(_Slice(fd, info.offset, info.length), HEADER)
    try:
        found = loading.records(file)
        file.seek(0)
        with torch.serialization.skip_data():
            tensor = loading.torch_load(file, map_location="cpu", weights_only=True)
    except loading.Unplanned:
        return None
    if not lazy.is_plain(tensor) or [size for _, size in found] != [
        tensor.untyped_storage().nbytes()
    ]:
        return None
    return tensor, info.offset + found[0][0]


def _memory(tensor: Any) -> memoryview:
    """The bytes of a contiguous tensor of the CPU."""
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


def _read_part(fd: int, part: Any, at: int, target: Any) -> None:
    """Reads the bytes of @part, of a storage that is at @at of the file, into @target."""
    at += part.storage_offset() * part.element_size()
    if part.is_contiguous() and (
        target.device.type == "cpu" and target.dtype == part.dtype and target.is_contiguous()
    ):
        _fill(fd, at, _memory(target))
        return
    span = 1 + sum((length - 1) * step for length, step in zip(part.size(), part.stride()))
    memory = torch.empty(span, dtype=part.dtype)
    _fill(fd, at, _memory(memory))
    target.copy_(memory.as_strided(part.size(), part.stride()))


def _read(fd: int, info: Any, item: Any, planner: Any) -> None:
    if item.type == LoadItemType.BYTE_IO:
        planner.load_bytes(item, io.BytesIO(_bytes(fd, info.offset, info.length)))
        return
    found = _stored(fd, info)
    if found is None:
        data = io.BytesIO(_bytes(fd, info.offset, info.length))
        tensor = torch.load(data, map_location="cpu", weights_only=True)
    else:
        tensor = found[0]
    for dim, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
        tensor = tensor.narrow(dim, offset, length)
    target = planner.resolve_tensor(item).detach()
    if target.size() != tensor.size():
        raise ValueError(
            f"{item.storage_index.fqn}: {tuple(tensor.size())} is stored where "
            f"{tuple(target.size())} is wanted"
        )
    if found is None:
        target.copy_(tensor)
    elif tensor.numel():
        _read_part(fd, tensor, found[1], target)
    planner.commit_tensor(item, target)
