# SPDX-License-Identifier: MIT
"""Tensors of a checkpoint directory in another form, read from a view in the mount
(ckptfs-views(5)): by other names, or the slices of this rank for another parallelism. The daemon
gathers the bytes of a view; several threads here read them straight to where they are to be."""

from __future__ import annotations

import concurrent.futures
import ctypes
import errno
import json
import os
import struct
from typing import Any, Callable, Mapping

import torch

from . import mounts
from ._lib import CheckpointError

CHUNK = 16 << 20
HEADER_MAX = 100_000_000
NOTE = "note: "  # of lines of `why` that tell of nothing that is missed
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


def _world() -> tuple[int, int]:
    """Rank and number of ranks, as torch.distributed or the launcher says."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _refused(top: str, spec: str, error: OSError) -> CheckpointError:
    """What the daemon says of a view that cannot be made."""
    if not os.path.isdir(os.path.dirname(top)):
        return CheckpointError(errno.ENOENT, f"{os.path.dirname(top)}: there is no such directory")
    if not mounts.in_mount(os.path.dirname(top)):
        return mounts.not_mounted(os.path.dirname(top))
    why = f"{spec}: {os.strerror(error.errno or errno.EIO)}"
    if error.errno == errno.EINVAL:
        with open(top + "/why", encoding="utf-8", errors="replace") as file:
            why = file.readline().strip() or why
    elif error.errno == errno.ENOENT:
        why += ": a checkpoint that is being saved has no view yet"
    return CheckpointError(error.errno or errno.EIO, f"{top}: {why}")


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


def _header(path: str) -> dict[str, Stored]:
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        if size > HEADER_MAX:
            raise CheckpointError(errno.EBADMSG, f"{path}: its header is too long")
        found = json.loads(file.read(size))
    found.pop("__metadata__", None)
    stored = {}
    for name, one in found.items():
        begin, end = one["data_offsets"]
        dtype = getattr(torch, TYPES.get(one["dtype"], ""), None)
        if dtype is None:
            raise CheckpointError(
                errno.ENOTSUP, f"{path}: {name}: torch {torch.__version__} has no {one['dtype']}"
            )
        stored[name] = Stored(path, dtype, one["shape"], 8 + size + begin, end - begin)
    return stored


# --- the bytes ---


def _target(name: str, one: Stored, into: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Where it is read to, and the tensor of the caller that it is then copied to, or None."""
    if into is None:
        return torch.empty(one.shape, dtype=one.dtype), None
    wanted = into[name].detach()
    wanted = wanted.to_local() if hasattr(wanted, "to_local") else wanted
    if list(wanted.shape) != one.shape:
        raise CheckpointError(
            errno.EINVAL,
            f"{one.path}: {name} has the shape {one.shape}, and {list(wanted.shape)} is wanted",
        )
    direct = wanted.device.type == "cpu" and wanted.is_contiguous() and wanted.dtype == one.dtype
    return (wanted, None) if direct else (torch.empty(one.shape, dtype=one.dtype), wanted)


def _read(fd: int, one: Stored, tensor: Any, begin: int) -> int:
    """Reads a chunk of the tensor; its bytes."""
    size = min(CHUNK, one.size - begin)
    memory = (ctypes.c_char * size).from_address(tensor.data_ptr() + begin)
    view, at = memoryview(memory).cast("B"), one.at + begin
    while view.nbytes:
        n = os.preadv(fd, [view], at)
        if n == 0:
            raise CheckpointError(errno.EIO, f"{one.path}: it ends at {at}, within a tensor")
        view, at = view[n:], at + n
    return size


def _read_all(
    stored: dict[str, Stored], targets: dict[str, Any], threads: int, progress: Progress | None
) -> None:
    total, done = sum(one.size for one in stored.values()), 0
    fds = {}
    try:
        for path in {one.path for one in stored.values()}:
            fds[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with concurrent.futures.ThreadPoolExecutor(max(threads, 1), "ckptfs-load") as pool:
            jobs = [
                pool.submit(_read, fds[one.path], one, targets[name], begin)
                for name, one in sorted(stored.items(), key=lambda item: item[1].at)
                for begin in range(0, one.size, CHUNK)
            ]
            try:
                for job in jobs:
                    done += job.result()
                    if progress:
                        progress(done, total)
            except BaseException:
                for job in jobs:
                    job.cancel()
                raise
    finally:
        for fd in fds.values():
            os.close(fd)


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
    own_rank, world = _world()
    words = [view] if view else []
    if layout is not None:
        dp = max(world // (tp * pp), 1) if dp is None else dp
        words += [f"layout={layout}", f"tp={tp}", f"pp={pp}", f"dp={dp}"]
    spec = ",".join(words) or "safetensors"
    rank = own_rank if rank is None else rank
    top = os.path.join(os.fspath(path), ".view")
    try:
        names = os.listdir(f"{top}/{spec}")
    except OSError as error:
        raise _refused(top, spec, error) from error
    if layout is not None:
        names = [name for name in names if name == f"rank-{rank:05}.safetensors"]
        if not names:
            raise CheckpointError(
                errno.EINVAL,
                f"{top}/{spec}: it has no rank {rank}, but {tp * pp * (dp or 1)} ranks",
            )
    if not partial:
        _check_shown(f"{top}/{spec}")
    stored: dict[str, Stored] = {}
    for name in sorted(names):
        if name.endswith(".safetensors"):
            stored.update(_header(f"{top}/{spec}/{name}"))
    if into is not None and set(into) != set(stored):
        odd = sorted(set(into) ^ set(stored))
        where = "in the view" if odd[0] in stored else "in `into`"
        raise CheckpointError(
            errno.EINVAL, f"{top}/{spec}: {odd[0]} is only {where}; {len(odd)} names differ"
        )
    targets = {name: _target(name, one, into) for name, one in stored.items()}
    _read_all(stored, {name: one[0] for name, one in targets.items()}, threads, progress)
    for memory, wanted in targets.values():
        if wanted is not None:
            wanted.copy_(memory)
    if into is not None:
        return into
    device = torch.device(map_location) if map_location is not None else None
    return {
        name: memory if device is None else memory.to(device)
        for name, (memory, _) in targets.items()
    }
