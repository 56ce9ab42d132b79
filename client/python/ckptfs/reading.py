# SPDX-License-Identifier: MIT
"""Reading of parts of many files by several threads, straight into tensors."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from typing import Any, Iterator

import torch

from ._lib import CheckpointError

CHUNK = 16 << 20
OPEN_MAX = 64


class Files:
    """Descriptors of files, of which few are open at a time. What was opened once must be the same
    file when it is opened again. Any threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, list[int]] = {}  # descriptor, and readers right now
        self._seen: dict[str, tuple[int, ...]] = {}

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: Any) -> None:
        for fd, _users in self._open.values():
            os.close(fd)
        self._open.clear()

    def _take(self, path: str) -> int:
        with self._lock:
            if path not in self._open:
                idle = [name for name, (_, users) in self._open.items() if not users]
                for name in idle[: max(len(self._open) - OPEN_MAX + 1, 0)]:
                    os.close(self._open.pop(name)[0])
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._open[path] = [fd, 0]
                st = os.fstat(fd)
                state = (st.st_dev, st.st_ino, st.st_size)
                if self._seen.setdefault(path, state) != state:
                    raise CheckpointError(
                        errno.ESTALE, f"{path} was replaced while it was read: load it again"
                    )
            found = self._open[path]
            found[1] += 1
            return found[0]

    def _leave(self, path: str) -> None:
        with self._lock:
            self._open[path][1] -= 1

    def size(self, path: str) -> int:
        fd = self._take(path)
        try:
            return os.fstat(fd).st_size
        finally:
            self._leave(path)

    def fill(self, path: str, view: memoryview, at: int, what: str = "a tensor") -> int:
        """Reads as many bytes as @view has from @at on; their number."""
        size = view.nbytes
        fd = self._take(path)
        try:
            while view.nbytes:
                n = os.preadv(fd, [view], at)
                if n == 0:
                    raise CheckpointError(
                        errno.EIO,
                        f"{path}: it ends at {at}, within {what}; `ckptfs verify` tells whether it "
                        "was damaged",
                    )
                view, at = view[n:], at + n
        finally:
            self._leave(path)
        return size

    def read(self, path: str, at: int, size: int) -> bytearray:
        data = bytearray(size)
        self.fill(path, memoryview(data), at)
        return data


def is_memory(tensor: Any) -> bool:
    """True if its elements lie in the memory of the host as they are: no wrapper, no bits that say
    how they are to be understood."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)
    )


def memory(tensor: Any, begin: int = 0, size: int | None = None) -> memoryview:
    """Bytes of a contiguous tensor in memory; with @size, also of a storage."""
    if size is None:
        size = tensor.numel() * tensor.element_size() - begin
    address = tensor.data_ptr() + begin
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def chunks(size: int) -> Iterator[tuple[int, int]]:
    """Begin and length of the parts that so many bytes are read in."""
    for begin in range(0, size, CHUNK):
        yield begin, min(CHUNK, size - begin)
