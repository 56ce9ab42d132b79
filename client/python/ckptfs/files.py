# SPDX-License-Identifier: MIT
"""ckptfs.open: a file that gets its name when all of it was written, and never before. Needs
neither torch nor libckptfs."""

from __future__ import annotations

import builtins
import contextlib
import errno
import logging
import os
import random
import stat
import string
from typing import Any, BinaryIO, cast

from . import fates, mounts
from ._lib import CheckpointError

log = logging.getLogger("ckptfs")

# The built-in rules know files called so, with six letters or digits more, as unfinished
# (ckptfs-rules(5)).
_TEMP, _TEMP_LETTERS = ".tmp", string.ascii_letters + string.digits

_STATE = "user.ckptfs.state"  # attribute of files in a mount

_random = random.SystemRandom()  # a child after fork makes other names
_said_unclaimed = False


class WholeFile:
    """A file that is being written, under a temporary name of its own beside the one that it is to
    have. `close` gives it that name, within a `with` block only the end of the block; of several
    that are written at once the last one keeps it. `abandon`, an exception that leaves the block,
    or losing the object removes it, and what had the name stays. All other attributes, such as
    `write`, `seek`, `tell` and `fileno`, are those of the file of Python's own `open`."""

    def __init__(self, path: mounts.Path, exclusive: bool = False, buffering: int = -1) -> None:
        self._file: BinaryIO | None = None
        self._decided = False  # it has its name, or never will
        self._in_block = False
        self._pid = os.getpid()
        self.name = os.fspath(path)
        # Also when the working directory is another one by the end.
        self._path = self.name if os.path.isabs(self.name) else os.path.join(os.getcwd(), self.name)
        self._exclusive = exclusive
        with mounts.served(path):
            if exclusive and os.path.lexists(self._path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.name)
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(self._path).st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.name)
            if os.path.islink(self._path):  # which stays, as for any open
                self._path = os.path.realpath(self._path)
            self._served = mounts.to_mount(self._path)
            self._temp, self._file = _create_beside(self._path, buffering)
            self._staged = self._served and _is_staged(self._file)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._file is None:
            raise AttributeError(name)
        return getattr(self._file, name)

    def __iter__(self) -> Any:
        return iter(cast(BinaryIO, self._file))

    def __enter__(self) -> WholeFile:
        self._in_block = True
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._in_block = False
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        if self.__dict__.get("_pid") == os.getpid():  # a child after fork loses no more than a copy
            self.abandon()

    def close(self) -> None:
        """Ends the file, which then has its name. On a mount it is committed as soon as it is on
        the backing; elsewhere it is synced first. OSError: it could not be written, and what had
        the name stays. Closed again: nothing. CheckpointError, EINVAL: it was written, but is no
        checkpoint of the mount, which CKPTFS_REQUIRE asks for."""
        file = self._file
        if file is None or self._decided:
            return
        with mounts.served(self._path):
            try:
                self._end(file)
            except BaseException:
                self._in_block = False
                self.abandon()
                raise

    def _end(self, file: BinaryIO) -> None:
        if not file.closed:
            file.flush()
            if not self._staged:
                os.fsync(file.fileno())
            file.close()
        if self._in_block:  # whoever wraps a file closes it, also on the way out of an exception
            return
        if self._exclusive:
            os.link(self._temp, self._path)
            os.unlink(self._temp)
        else:
            os.rename(self._temp, self._path)
        self._decided = True
        if self._staged:
            fates.watch(self._path)
            return
        _sync_directory(os.path.dirname(self._path))
        if self._served:
            _unclaimed(self._path)

    def abandon(self) -> None:
        """Gives the file up: what had its name before keeps it. After `close`: nothing."""
        if self._file is None or self._decided:
            return
        self._decided = True
        with contextlib.suppress(OSError):  # before its end is seen
            os.unlink(self._temp)
        with contextlib.suppress(OSError):  # bytes that nobody wants could not be written
            self._file.close()

    def __repr__(self) -> str:
        return f"<ckptfs.WholeFile {self.name!r}, {'closed' if self._decided else 'being written'}>"


def _create_beside(path: str, buffering: int) -> tuple[str, BinaryIO]:
    """A new file in the directory of @path, and its path."""
    while True:
        temp = os.path.join(
            os.path.dirname(path), _TEMP + "".join(_random.choices(_TEMP_LETTERS, k=6))
        )
        try:
            return temp, builtins.open(temp, "xb", buffering)
        except FileExistsError:
            continue


def _is_staged(file: BinaryIO) -> bool:
    """True if the mount keeps the new file aside until it is durable and has a digest, whatever its
    name will be. (As ckptfs_is_staged tells where the library is.)"""
    try:
        return os.getxattr(file.fileno(), _STATE) == b"open"
    except OSError:
        return False


def _unclaimed(path: str) -> None:
    """The file @path, in a mount, was written and synced, and is no checkpoint: the mount's own
    rules do not know _TEMP."""
    global _said_unclaimed
    text = (
        "is no checkpoint here: it has no digest. Call it .pt or .safetensors, or add a rule "
        "(ckptfs-rules(5))"
    )
    if mounts.is_required(path):
        raise CheckpointError(errno.EINVAL, f"{path} was written, but {text}")
    if not _said_unclaimed:
        _said_unclaimed = True
        log.warning("%s %s", path, text)


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError:  # some filesystems cannot, and have the name safe
        pass
    finally:
        os.close(fd)


def open(path: mounts.Path, mode: str = "wb", buffering: int = -1) -> Any:
    """Opens the file @path. With mode "wb" it is written whole or not at all: it gets its name when
    it is closed, and never if an exception leaves the `with` block, or the process dies:

        with ckptfs.open("/ckpt/run/step-100.pt") as file:
            torch.save(state, file)

    "xb": the same of a name that is free (FileExistsError). "rb": Python's own open. Works on every
    filesystem; outside a mount the file is synced before it gets its name."""
    if mode in ("rb", "br"):
        with mounts.served(path):
            return builtins.open(path, mode, buffering)
    if mode not in ("wb", "bw", "xb", "bx"):
        raise ValueError(
            f"mode {mode!r}: ckptfs.open writes new files of bytes, 'wb' or 'xb', or reads, 'rb'. "
            "To append or to change a part, use Python's own open; "
            "such a file is not whole or nothing"
        )
    if isinstance(path, int):
        raise TypeError(
            "ckptfs.open wants a path, not a descriptor: the file gets its name when it is closed"
        )
    mounts.check_required(path)
    try:
        return WholeFile(path, "x" in mode, buffering)
    except FileNotFoundError as error:
        raise no_directory(path) from error


def no_directory(path: mounts.Path) -> CheckpointError:
    directory = os.path.dirname(os.path.abspath(os.fspath(path)))
    return CheckpointError(
        errno.ENOENT,
        (
            f"{os.fspath(path)}: its directory does not exist. "
            f"os.makedirs({directory!r}, exist_ok=True) makes it"
        ),
    )
