# SPDX-License-Identifier: MIT
"""Tensors of a checkpoint directory in another form, read from a view in the mount
(ckptfs-views(5)): by other names, or the slices of this rank for another parallelism. The daemon
gathers the bytes of a view; several threads here read them straight to where they are to be."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import errno
import functools
import json
import math
import os
import struct
import time
from typing import Any, Callable, Iterator, Mapping

import torch

from . import mounts, reading
from ._lib import CheckpointError
from .ranks import rank_and_world

HEADER_MAX = 100_000_000
NOTE = "note: "  # of lines of `why` that tell of nothing that is missed
PENDING_MAX = 256 << 20  # bytes in memory that are still to be copied to where they are wanted
BUSY_S = 60  # so long it is tried again if the daemon makes too many views
TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}

Progress = Callable[[int, int], None]


class Stored:
    """A tensor in a file of a view."""

    def __init__(self, path: str, dtype: torch.dtype, shape: list[int], at: int, size: int) -> None:
        self.path, self.dtype, self.shape, self.at, self.size = path, dtype, shape, at, size


# --- which files ---


def _refused(top: str, spec: str, error: OSError) -> CheckpointError:
    """What the daemon says of a view that cannot be made."""
    why = os.strerror(error.errno or errno.EIO)
    if "/" in spec:
        why = "no '/' can stand in it; in only= a '?' stands for any character"
    elif error.errno == errno.EINVAL:
        with open(top + "/why", encoding="utf-8", errors="replace") as file:
            said = file.readline().strip()
        # Another program may have been refused since.
        why = said[len(spec) + 2 :] if said.startswith(spec + ": ") else f"{why}: see {top}/why"
    elif error.errno == errno.ENOENT:
        why += ": a checkpoint that is being saved has no view yet"
    return CheckpointError(error.errno or errno.EIO, f"{top}: {spec}: {why}")


def _listed(top: str, spec: str) -> list[str]:
    """The files of the view."""
    end = time.monotonic() + BUSY_S
    while True:
        try:
            return sorted(os.listdir(f"{top}/{spec}"))
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise _refused(top, spec, error) from error
        time.sleep(0.1)  # others have their views made


def _check_shown(view: str) -> None:
    """CheckpointError: what is asked for cannot all be shown."""
    with open(view + "/why", encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if not line.startswith(NOTE)]
    if lines:
        more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
        raise CheckpointError(
            errno.ENODATA,
            f"{view}/why: {lines[0]}{more}. Choose by only=, or give partial=True",
        )


def _header(files: reading.Files, path: str) -> dict[str, Stored]:
    (size,) = struct.unpack("<Q", files.read(path, 0, 8))
    end = files.size(path) - 8 - size
    if size > HEADER_MAX or end < 0:
        raise CheckpointError(errno.EBADMSG, f"{path}: its header is too long")
    found = json.loads(bytes(files.read(path, 8, size)))
    found.pop("__metadata__", None)
    stored = {}
    for name, one in found.items():
        begin, last = one["data_offsets"]
        dtype = getattr(torch, TYPES.get(one["dtype"], ""), None)
        if dtype is None:
            raise CheckpointError(
                errno.ENOTSUP, f"{path}: {name}: torch {torch.__version__} has no {one['dtype']}"
            )
        wanted = math.prod(one["shape"]) * torch.empty(0, dtype=dtype, device="cpu").element_size()
        if not 0 <= begin <= last <= end or last - begin != wanted:
            raise CheckpointError(errno.EBADMSG, f"{path}: {name} lies outside of the file")
        stored[name] = Stored(path, dtype, one["shape"], 8 + size + begin, last - begin)
    return stored


# --- the bytes ---


def _local(name: str, one: Stored, into: Mapping[str, Any]) -> Any:
    """The tensor of the caller that it is to be in."""
    wanted = into[name].detach()
    wanted = wanted.to_local() if hasattr(wanted, "to_local") else wanted
    if list(wanted.shape) != one.shape:
        raise CheckpointError(
            errno.EINVAL,
            f"{one.path}: {name} has the shape {one.shape}, and {list(wanted.shape)} is wanted",
        )
    if not torch.can_cast(one.dtype, wanted.dtype):
        raise CheckpointError(
            errno.EINVAL, f"{one.path}: {name} is {one.dtype}, and {wanted.dtype} is wanted"
        )
    return wanted


class _Reader:
    """Reads tensors with several threads. Of those that are not read straight into place few are in
    memory at a time."""

    def __init__(self, files: reading.Files, pool: Any, told: Callable[[int], None]) -> None:
        self.files, self.pool, self.told = files, pool, told
        self.pending: collections.deque[Any] = collections.deque()
        self.staged = 0  # bytes of the pending ones that are copied later

    def add(self, name: str, one: Stored, memory: Any, then: Callable[[], None] | None) -> None:
        """Reads into @memory; then calls @then."""
        jobs = [
            self.pool.submit(
                self.files.fill,
                one.path,
                reading.memory(memory, begin, size),
                one.at + begin,
                name,
            )
            for begin, size in reading.chunks(one.size)
        ]
        self.pending.append((one, jobs, then))
        self.staged += one.size if then else 0
        while self.staged > PENDING_MAX and len(self.pending) > 1:
            self.take()

    def take(self) -> None:
        one, jobs, then = self.pending.popleft()
        try:
            for job in jobs:
                self.told(job.result())
        except BaseException:
            self.pending.append((one, jobs, then))
            raise
        if then:
            then()
            self.staged -= one.size

    def finish(self) -> None:
        while self.pending:
            self.take()

    def cancel(self) -> None:
        """When this returns nobody writes into the tensors any more."""
        jobs = [job for _, several, _ in self.pending for job in several]
        for job in jobs:
            job.cancel()
        concurrent.futures.wait(jobs)


@contextlib.contextmanager
def _reader(
    files: reading.Files, total: int, threads: int, progress: Progress | None
) -> Iterator[_Reader]:
    done = 0

    def told(size: int) -> None:
        nonlocal done
        done += size
        if progress:
            progress(done, total)

    with concurrent.futures.ThreadPoolExecutor(max(threads, 1), "ckptfs-load") as pool:
        reader = _Reader(files, pool, told)
        try:
            yield reader
            reader.finish()
        except BaseException:
            reader.cancel()
            raise


def _read_into(reader: _Reader, stored: dict[str, Stored], into: Mapping[str, Any]) -> None:
    places = {name: _local(name, one, into) for name, one in stored.items()}
    for name, one in stored.items():
        place = places[name]
        if reading.is_memory(place) and place.is_contiguous() and place.dtype == one.dtype:
            reader.add(name, one, place, None)
            continue
        memory = torch.empty(one.shape, dtype=one.dtype, device="cpu")
        reader.add(name, one, memory, functools.partial(place.copy_, memory))


def _read_new(reader: _Reader, stored: dict[str, Stored], device: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def move(name: str, memory: Any) -> None:
        found[name] = memory.to(device)

    for name, one in stored.items():
        found[name] = memory = torch.empty(one.shape, dtype=one.dtype, device="cpu")
        then = None if device is None else functools.partial(move, name, memory)
        reader.add(name, one, memory, then)
        del memory
    return found


def _check_words(view: str) -> None:
    words = view.split(",") if view else []
    for word in words:
        if word.split("=")[0] in ("layout", "tp", "pp", "dp"):
            raise CheckpointError(
                errno.EINVAL, f"view={view}: give {word.split('=')[0]} to ckptfs.load itself"
            )
        if word in ("npy", "dcp"):
            raise CheckpointError(
                errno.EINVAL, f"view={view}: ckptfs.load reads views in the form of safetensors"
            )


def _check_device(map_location: Any) -> Any:
    if map_location is None or isinstance(map_location, (str, torch.device)):
        return None if map_location is None else torch.device(map_location)
    raise CheckpointError(
        errno.EINVAL, "of a directory map_location is a device, not a dict or a function"
    )


def load(
    path: Any,
    *,
    view: str = "",
    layout: str | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int | None = None,
    rank: int | None = None,
    into: Mapping[str, Any] | None = None,
    map_location: Any = None,
    partial: bool = False,
    threads: int = 4,
    progress: Progress | None = None,
) -> Any:
    """The tensors of the checkpoint directory @path, which lies in a mount, by their names. See
    ckptfs.load, which calls this for directories."""
    path = os.fspath(path)
    if not mounts.in_mount(path):
        raise mounts.not_mounted(path)
    _check_words(view)
    device = _check_device(map_location)
    words = [view] if view else []
    if layout is not None:
        own, world = rank_and_world()
        rank = own if rank is None else rank
        if tp < 1 or pp < 1:
            raise CheckpointError(errno.EINVAL, f"tp={tp} and pp={pp} are no numbers of ranks")
        dp = max(world // (tp * pp), 1) if dp is None else dp
        words += [f"layout={layout}", f"tp={tp}", f"pp={pp}", f"dp={dp}"]
    spec = ",".join(words) or "safetensors"
    top = os.path.join(path, ".view")
    names = [name for name in _listed(top, spec) if name.endswith(".safetensors")]
    if layout is not None:
        names = [name for name in names if name == f"rank-{rank:05}.safetensors"]
        if not names:
            raise CheckpointError(
                errno.EINVAL,
                f"{top}/{spec}: it has no rank {rank}, but {tp * pp * (dp or 1)} ranks",
            )
    if not partial:
        _check_shown(f"{top}/{spec}")
    if not names:
        raise CheckpointError(
            errno.ENODATA, f"{top}/{spec} has no tensor: `ckptfs tensors` lists what there is"
        )
    with reading.Files() as files:
        before = os.stat(f"{top}/{spec}").st_ino
        stored: dict[str, Stored] = {}
        for name in names:
            stored.update(_header(files, f"{top}/{spec}/{name}"))
        if os.stat(f"{top}/{spec}").st_ino != before:
            raise CheckpointError(
                errno.ESTALE, f"{path} was replaced while it was read: load it again"
            )
        if into is not None and set(into) != set(stored):
            odd = sorted(set(into) ^ set(stored))
            where = "in the view" if odd[0] in stored else "in `into`"
            raise CheckpointError(
                errno.EINVAL, f"{top}/{spec}: {odd[0]} is only {where}; {len(odd)} names differ"
            )
        stored = dict(sorted(stored.items(), key=lambda item: (item[1].path, item[1].at)))
        total = sum(one.size for one in stored.values())
        with _reader(files, total, threads, progress) as reader:
            if into is not None:
                _read_into(reader, stored, into)
                found: Any = into
            else:
                found = _read_new(reader, stored, device)
    return found
