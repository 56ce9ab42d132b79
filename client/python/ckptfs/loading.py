# SPDX-License-Identifier: MIT
"""torch.load whose reads are large and made by several threads.

torch.load asks `map_location` for each storage, in the order in which the file has them. Within
skip_data it has not read them: so they are read here, before it goes on with them, whatever it then
does."""

from __future__ import annotations

import concurrent.futures
import errno
import os
import sys
import zipfile
from typing import Any, Callable, Iterator

import torch
from torch.serialization import default_restore_location

from . import mounts, reading, views
from ._lib import CheckpointError

torch_load = torch.load  # as it is without us
THREADS = 4

Progress = Callable[[int, int], None]


class Unplanned(Exception):
    """It is read by torch itself."""


def records(file: Any) -> list[tuple[int, int]]:
    """Offset and size of all storages of an open file of torch.save that have bytes, in their
    order. Unplanned: it is another one."""
    found = []
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                top, _, name = info.filename.partition("/")
                if name == "byteorder" and archive.read(info) != sys.byteorder.encode():
                    raise Unplanned
                if name.startswith("data/") and name[5:].isdigit() and info.file_size:
                    if info.compress_type != zipfile.ZIP_STORED or not top:
                        raise Unplanned
                    file.seek(info.header_offset)
                    header = file.read(30)
                    if header[:4] != b"PK\x03\x04":
                        raise Unplanned
                    at = (
                        info.header_offset
                        + 30
                        + int.from_bytes(header[26:28], "little")
                        + int.from_bytes(header[28:30], "little")
                    )
                    if at + info.file_size > archive.start_dir:
                        raise Unplanned
                    found.append((int(name[5:]), at, info.file_size))
    except (zipfile.BadZipFile, EOFError) as error:
        raise Unplanned from error
    return [(at, size) for _, at, size in sorted(found)]


class _Reader:
    def __init__(self, path: Any, threads: int, progress: Progress | None) -> None:
        self.path, self.progress = path, progress
        self.pool = concurrent.futures.ThreadPoolExecutor(max(threads, 1), "ckptfs-load")
        with open(path, "rb") as file:
            found = records(file)
        self.records: Iterator[tuple[int, int]] = iter(found)
        self.total = sum(size for _, size in found)
        self.done = 0
        self.files = reading.Files()

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: Any) -> None:
        self.pool.shutdown()
        self.files.__exit__()

    def fill(self, storage: Any) -> None:
        nbytes = storage.nbytes()
        if not nbytes:
            return
        at, size = next(self.records, (0, -1))
        if size != nbytes:
            raise Unplanned

        def read(part: tuple[int, int]) -> int:
            begin, size = part
            view = reading.memory(storage, begin, size)
            return self.files.fill(os.fspath(self.path), view, at + begin)

        parts = list(reading.chunks(nbytes))
        for done in map(read, parts) if len(parts) == 1 else self.pool.map(read, parts):
            self._told(done)

    def _told(self, nbytes: int) -> None:
        self.done += nbytes
        if self.progress:
            self.progress(self.done, self.total)


def _restored(storage: Any, location: str, map_location: Any) -> Any:
    """What torch.load makes of map_location."""
    if map_location is None:
        return default_restore_location(storage, location)
    if isinstance(map_location, dict):
        return default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, torch.device)):
        return default_restore_location(storage, str(map_location))
    result = map_location(storage, location)
    return default_restore_location(storage, location) if result is None else result


def _load(
    path: Any, map_location: Any, threads: int, progress: Progress | None, arguments: Any
) -> Any:
    with _Reader(path, threads, progress) as reader:

        def place(storage: Any, location: str) -> Any:
            reader.fill(storage)
            return _restored(storage, location, map_location)

        with torch.serialization.skip_data():
            return torch_load(path, map_location=place, **arguments)


def _plain(f: Any, map_location: Any, arguments: Any) -> bool:
    return (
        not isinstance(f, (str, os.PathLike))
        or bool(arguments.get("mmap"))
        or not hasattr(torch.serialization, "skip_data")
        or str(map_location) == "meta"
        or torch._guards.active_fake_mode() is not None
    )


def load(
    f: Any,
    map_location: Any = None,
    *,
    threads: int = THREADS,
    progress: Progress | None = None,
    **arguments: Any,
) -> Any:
    """Loads as torch.load does, whose other arguments it takes, any file, in a mount or not.

    threads: so many read large tensors at a time. progress: called as progress(bytes read, bytes in
    all) after each part. With mmap=True, a file object, or a file of the old format, torch reads by
    itself, and there is no progress.

    Of a directory in a mount, whoever saved it, it loads tensors as {name: tensor}. Give one of

    view: a SPEC of ckptfs-views(5), such as "strip=model.,only=*.embed*".
    layout: the name of a layout there, with tp, pp and dp: only the slices of this rank are read.
        rank: default that of torch.distributed, or as the launcher says. dp: default, as many as
        there are ranks.

    into: {name: tensor}, which are filled in place and returned, if they have all names of the view
    and no others; of a DTensor its local part. partial=True: what cannot be shown is left out."""
    mounts.check_required(f)
    if "view" in arguments or "layout" in arguments:
        if not (mounts.is_path(f) and os.path.isdir(f)):
            raise CheckpointError(
                errno.ENOTDIR, f"{f} is no directory: view= and layout= are for those"
            )
    if mounts.is_path(f) and os.path.isdir(f):
        if "view" in arguments or "layout" in arguments:
            with mounts.served(f):
                return views.load(
                    f, map_location=map_location, threads=threads, progress=progress, **arguments
                )
        raise CheckpointError(
            errno.EISDIR,
            (
                f"{os.fspath(f)} is a directory: load it as the framework that saved it does, "
                "a checkpoint of torch.distributed.checkpoint by its load "
                "with ckptfs.dcp.Reader(path); or its tensors, with view= or layout="
            ),
        )
    with mounts.served(f):
        if not _plain(f, map_location, arguments):
            try:
                return _load(f, map_location, threads, progress, arguments)
            except Unplanned:
                pass
        return torch_load(f, map_location=map_location, **arguments)


def read_into(path: Any, storage: Any, at: int, offset: int, nbytes: int) -> None:
    """Bytes [@at, @at + @nbytes) of a file, into those of @storage from @offset on."""
    if nbytes:
        with reading.Files() as files:
            files.fill(os.fspath(path), reading.memory(storage, offset, nbytes), at)
