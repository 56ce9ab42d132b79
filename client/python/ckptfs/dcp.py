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

import collections
import concurrent.futures
import contextlib
import copy
import errno
import io
import logging
import os
import threading
import time
from typing import Any, Callable, Iterator, NamedTuple

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

from . import fates, known, lazy, loading, reading, skeleton
from ._lib import CheckpointError
from .ahead import RegisteredObject
from .mounts import in_mount
from .session import Session, Shape, before

log = logging.getLogger("ckptfs")

ALIGN = 64
THREADS = 4
HEADER = 4096  # what torch.save writes before and behind a tensor has fewer bytes
SMALL = 1 << 20  # parts of up to so many bytes are read before the planner is asked for their place
RUNS_MAX = 100_000  # so many runs of a tensor are read each for itself
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


def _registered(planner: SavePlanner, item: Any) -> RegisteredObject | None:
    """The object of @item, if it is one that may be serialised already."""
    look = getattr(planner, "lookup_object", None)
    found = look(item.index) if look else None
    return found if isinstance(found, RegisteredObject) else None


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
        results: list[WriteResult] = []
        at = 0

        def stored(item: Any, size: int) -> None:
            nonlocal at
            results.append(WriteResult(item.index, size, _StorageInfo(name, at, size)))
            at += -(-size // ALIGN) * ALIGN

        def serialised() -> Iterator[tuple[int, bytes]]:
            for item in objects:
                data = planner.resolve_data(item).getvalue()
                yield at, data
                stored(item, len(data))

        objects = []
        for item in plan.items:
            if item.type != WriteItemType.BYTE_IO:
                stored(item, self._add(file, item, planner.resolve_data(item), at))
                continue
            registered = _registered(planner, item)
            if registered:
                stored(item, file.add_object(registered.take(), item.index.fqn, at))
            else:
                objects.append(item)
        file.late = serialised()
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
        """A tensor, at @at of the file; its size."""
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


class _Wanted(NamedTuple):
    """A part of a stored tensor, before it is read."""

    path: str
    part: Any  # as it is stored, but none of its bytes was read; None: it is stored in another way
    at: int  # of its storage, in the file
    early: Any  # what was read of it already, or None


class Reader(FileSystemReader):
    """A FileSystemReader that reads with several threads (@threads), and of each tensor only what
    this rank wants, straight to its place. Small parts are read ahead."""

    def __init__(self, path: Any, *args: Any, threads: int = THREADS, **kwargs: Any) -> None:
        super().__init__(path, *args, **kwargs)
        self.threads = max(threads, 1)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        stored = [self.storage_data[item.storage_index] for item in plan.items]
        if (
            any(getattr(info, "transform_descriptors", None) for info in stored)
            or not hasattr(os, "preadv")
            or torch._guards.active_fake_mode() is not None
        ):
            return super().read_data(plan, planner)
        order = sorted(
            zip(plan.items, stored), key=lambda one: (one[1].relative_path, one[1].offset)
        )
        with reading.Files() as files, concurrent.futures.ThreadPoolExecutor(
            self.threads, "ckptfs-load"
        ) as pool:
            ahead: collections.deque[Any] = collections.deque()
            try:
                for item, info in order:
                    path = os.path.join(self.path, info.relative_path)
                    ahead.append((item, info, pool.submit(_look, files, path, info, item)))
                    if len(ahead) > 2 * self.threads:
                        self._take(files, pool, planner, *ahead.popleft())
                while ahead:
                    self._take(files, pool, planner, *ahead.popleft())
            except BaseException:
                for _, _, job in ahead:
                    job.cancel()
                raise
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _take(self, files: Any, pool: Any, planner: Any, item: Any, info: Any, job: Any) -> None:
        """Hands one item to the planner, which gets them one after the other."""
        wanted = job.result()
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(wanted.early))
            return
        if wanted.part is None:
            file = io.BufferedReader(_Slice(files, wanted.path, info), HEADER)
            wanted = wanted._replace(part=_narrowed(_load(file), item))
            wanted = wanted._replace(early=wanted.part)
        target = planner.resolve_tensor(item).detach()
        if target.size() != wanted.part.size():
            raise ValueError(
                f"{item.storage_index.fqn}: {tuple(wanted.part.size())} is stored where "
                f"{tuple(target.size())} is wanted"
            )
        if wanted.early is not None:
            target.copy_(wanted.early)
        else:
            _read_large(files, pool, wanted, target, item.storage_index.fqn)
        planner.commit_tensor(item, target)


class _Slice(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, files: reading.Files, path: str, info: Any) -> None:
        super().__init__()
        self.files, self.path, self.at = files, path, 0
        self.begin, self.size = info.offset, info.length

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")[: max(self.size - self.at, 0)]
        n = self.files.fill(self.path, view, self.begin + self.at)
        self.at += n
        return n


def _load(file: Any) -> Any:
    return loading.torch_load(file, map_location="cpu", weights_only=True)


def _narrowed(tensor: Any, item: Any) -> Any:
    """The part of it that is wanted."""
    for dim, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
        tensor = tensor.narrow(dim, offset, length)
    return tensor


def _look(files: reading.Files, path: str, info: Any, item: Any) -> _Wanted:
    """Where the bytes of an item are. Few bytes are read at once."""
    end = files.size(path)
    if end < info.offset + info.length:
        raise CheckpointError(
            errno.EIO,
            f"{path}: it ends at {end}, within {item.storage_index.fqn}; `ckptfs verify` tells "
            "whether it was damaged",
        )
    if item.type == LoadItemType.BYTE_IO:
        return _Wanted(path, None, 0, files.read(path, info.offset, info.length))
    nothing = _Wanted(path, None, 0, None)
    if not hasattr(torch.serialization, "skip_data"):
        return nothing
    file = io.BufferedReader(_Slice(files, path, info), HEADER)
    try:
        found = loading.records(file)
        file.seek(0)
        with torch.serialization.skip_data():
            tensor = _load(file)
    except loading.Unplanned:
        return nothing
    if not reading.is_memory(tensor) or [size for _, size in found] != [
        tensor.untyped_storage().nbytes()
    ]:
        return nothing
    wanted = _Wanted(path, _narrowed(tensor, item), info.offset + found[0][0], None)
    size = wanted.part.numel() * wanted.part.element_size()
    if size > SMALL:
        return wanted
    target = torch.empty(wanted.part.size(), dtype=wanted.part.dtype, device="cpu")
    if size:
        _fill(wanted, target, files, item.storage_index.fqn)
    return wanted._replace(early=target)


def _run_of(part: Any) -> tuple[list[int], int]:
    """The axes of @part but for the last ones that lie together, and the elements of these."""
    axes = [axis for axis in range(part.dim()) if part.size(axis) > 1]
    run = 1
    while axes and part.stride(axes[-1]) == run:
        run *= part.size(axes.pop())
    return axes, run


def _fill(wanted: _Wanted, target: Any, files: reading.Files, name: str) -> None:
    """Reads a part into a contiguous tensor of its type and shape."""
    part, element = wanted.part, wanted.part.element_size()
    at = wanted.at + part.storage_offset() * element
    axes, run = _run_of(part)
    steps = [part.stride(axis) for axis in axes]
    span = 1 + sum((size - 1) * step for size, step in zip(part.size(), part.stride()))
    # What lies between the runs is read, too, unless it is more than they are.
    few = part.numel() // run <= RUNS_MAX and span > 2 * part.numel()
    if not axes or (few and steps == sorted(steps, reverse=True)):
        starts = [0]
        for axis, step in zip(axes, steps):
            starts = [start + n * step for start in starts for n in range(part.size(axis))]
        for n, start in enumerate(starts):
            view = reading.memory(target, n * run * element, run * element)
            files.fill(wanted.path, view, at + start * element, name)
        return
    whole = torch.empty(span, dtype=part.dtype, device="cpu")
    files.fill(wanted.path, reading.memory(whole), at, name)
    target.copy_(whole.as_strided(part.size(), part.stride()))


def _read_large(files: reading.Files, pool: Any, wanted: _Wanted, target: Any, name: str) -> None:
    """Reads a part into @target, whatever that is: the bytes straight, if they can be."""
    part, element = wanted.part, wanted.part.element_size()
    straight = reading.is_memory(target) and target.dtype == part.dtype and target.is_contiguous()
    into = target if straight else torch.empty(part.size(), dtype=part.dtype, device="cpu")
    if part.is_contiguous():
        at = wanted.at + part.storage_offset() * element
        jobs = [
            pool.submit(
                files.fill, wanted.path, reading.memory(into, begin, size), at + begin, name
            )
            for begin, size in reading.chunks(part.numel() * element)
        ]
    else:
        jobs = [pool.submit(_fill, wanted, into, files, name)]
    try:
        for job in jobs:
            job.result()
    except BaseException:
        for job in jobs:
            job.cancel()
        concurrent.futures.wait(jobs)  # nobody may write there any more
        raise
    if not straight:
        target.copy_(into)
