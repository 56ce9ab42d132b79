# SPDX-License-Identifier: MIT
"""What becomes of saves after they have returned. A lazy save returns before its bytes are on the
backing, so it can fail later. Each save is watched here until it is committed; a failure is told
once, by the path of the save: by the next save or `ckptfs.barrier`, by `ckptfs.wait` of that path,
or at the end of the program by the logger.

A thread asks, while there is a save to ask for. A question may take as long as what is queued on
the way to the storage, which no call of the program waits for."""

from __future__ import annotations

import errno
import os
import threading
from typing import NamedTuple

from . import _lib, mounts
from ._lib import CheckpointError

# ckptfs_wait says by these that nothing is known of a path, that it is no checkpoint's, or that it
# was removed or replaced.
_UNKNOWN = (
    errno.EIDRM,
    errno.ENOENT,
    errno.ENOTTY,
    errno.EOPNOTSUPP,
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.EACCES,
)


class _Save(NamedTuple):
    device: int
    inode: int
    mtime_ns: int


_saves: dict[str, _Save] = {}  # not known to be committed
_failures: dict[str, CheckpointError] = {}  # not told yet
_told = False  # since a file was opened
_thread: threading.Thread | None = None  # that which asks; none: there is nothing to ask for
_ending = threading.Event()
_PAUSE_S = 0.25  # between two questions; a failure is known so much later, no save is slower for it
_lock = threading.Lock()


def watch(path: mounts.Path, there: os.stat_result | None = None) -> None:
    """A save of @path has just returned. there: of its file, when it was opened; asked here, it may
    have to wait for the storage."""
    global _thread
    name = os.path.abspath(os.fspath(path))
    try:
        _lib.library()
        there = there or os.stat(name)
    except (OSError, _lib.LibraryNotFound):
        return  # nobody can be asked
    with _lock:
        _saves[name] = _Save(there.st_dev, there.st_ino, there.st_mtime_ns)
        _failures.pop(name, None)
        if _thread is None and not _ending.is_set():
            _thread = threading.Thread(target=_follow, name="ckptfs-fates", daemon=True)
            _thread.start()


def _follow() -> None:
    """Asks for the saves until nothing is left to ask for."""
    global _thread
    while True:
        look()
        with _lock:
            if not _saves or _ending.is_set():
                _thread = None
                return
        _ending.wait(_PAUSE_S)


def end() -> None:
    """At the end of the program: nobody asks behind its back any more, and what is known by then is
    complete."""
    _ending.set()
    thread = _thread
    if thread is not None:
        thread.join()
    look()


def take_told() -> bool:
    """True if a failure was told since this was asked last. The daemon tells each process of the
    failure of its job once, too, by an error of the next file that it opens."""
    global _told
    told, _told = _told, False
    return told


def forget(path: mounts.Path) -> None:
    """The caller has been told what became of it and of all in it, or saves it anew."""
    top = os.path.abspath(os.fspath(path))
    with _lock:
        for found in (_saves, _failures):
            for name in list(found):
                if name == top or name.startswith(top + "/"):
                    del found[name]


def was_told(error: CheckpointError) -> None:
    """A barrier has told of a failed capture: "PATH failed: ...", where the beginning of a long
    path is "..."."""
    global _told
    _told = True
    text = str(error)
    with _lock:
        for found in (_saves, _failures):
            for name in list(found):
                shown = text.partition(" failed: ")[0]
                if shown == name or shown.startswith("...") and name.endswith(shown[3:]):
                    del found[name]


def add(name: str, error: CheckpointError) -> None:
    with _lock:
        _saves.pop(name, None)
        _failures[name] = error


def clear() -> None:
    """For a child after fork: the saves are its parent's."""
    global _lock, _thread, _ending
    _lock, _thread, _ending = threading.Lock(), None, threading.Event()
    _saves.clear()
    _failures.clear()


def _lost(name: str, save: _Save) -> CheckpointError | None:
    """Of a save before the last mount: None if the file has its name all the same. Not every
    backing has the same inode numbers, or as fine times, in the next mount."""
    try:
        there = os.stat(name)
        if there.st_ino == save.inode or there.st_mtime_ns >= save.mtime_ns:
            return None
    except OSError:
        pass
    return CheckpointError(
        errno.ENOTCONN,
        (
            f"{name} failed: the daemon of its mount ended before it was committed. "
            "What was committed before is safe; save again"
        ),
    )


def _ask(name: str, save: _Save) -> CheckpointError | None:
    """Why the save has failed; None: it has not, and _saves has it no more if it never will."""
    path = name
    while True:
        result = _lib.library().ckptfs_wait(os.fsencode(path), _lib.COMMITTED, 0)
        if result == -errno.EINTR:
            continue
        if result != -errno.ETIMEDOUT or os.path.lexists(path):
            break
        # Removed since; or a part of a checkpoint that has failed, and is hidden as a whole.
        path = os.path.dirname(path)
    if result == -errno.ETIMEDOUT and path == name or -result in mounts.GONE:
        return None
    if result == 0 or -result in _UNKNOWN or result == -errno.ETIMEDOUT:
        with _lock:
            if _saves.get(name) == save:
                del _saves[name]
        return None
    return CheckpointError(-result, _lib.told())


def look(device: int | None = None) -> None:
    """Asks for each save that is not known to be committed; device: of that mount alone."""
    if not _lib.loaded():
        return
    for name, save in list(_saves.items()):
        if device not in (None, save.device):
            continue
        try:
            place = mounts.place_of(name)
            now = os.stat(place.directory).st_dev if place.alive else -1
        except OSError:
            continue
        # the next mount, which may get the same number, shows what is lost
        if place.served and not place.alive:
            with _lock:
                if _saves.get(name) is save:
                    _saves[name] = save._replace(device=-1)
        if not place.served or not place.alive:
            continue
        error = _ask(name, save) if now == save.device else _lost(name, save)
        with _lock:
            if _saves.get(name) is not save:
                continue  # it was saved anew meanwhile
            if error:
                _failures[name] = error
            if error or now != save.device:
                del _saves[name]


def failures() -> list[CheckpointError]:
    """All that were not told yet; from here on they are."""
    with _lock:
        found = list(_failures.values())
        _failures.clear()
    return found


def raise_first() -> None:
    """The oldest failure that was not told yet, if there is one; it is told by this."""
    global _told
    with _lock:
        name = next(iter(_failures), None)
        error = _failures.pop(name) if name is not None else None
    if error:
        _told = True
        raise error
