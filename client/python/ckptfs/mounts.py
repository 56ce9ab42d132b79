# SPDX-License-Identifier: MIT
"""Which paths lie in a mount of ckptfs, and what to say where one does not. Needs neither torch nor
libckptfs, but for `require`, which loads the library."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import Any, Iterator, NamedTuple, Union

from ._lib import CheckpointError, library

FSTYPE = "fuse.ckptfs"
REQUIRE = "CKPTFS_REQUIRE"
OFF = ("", "0", "no", "off", "false")
_ON = ("1", "yes", "on", "true")

# What every call gets in a mount whose daemon has ended.
GONE = (errno.ENOTCONN, errno.ECONNABORTED)

Path = Union[str, "os.PathLike[str]"]


class Mount(NamedTuple):
    """A line of the table of mounts."""

    point: str
    fstype: str
    source: str
    device: str


class Place(NamedTuple):
    """Where a path lies. `directory`: the nearest one that exists; `alive`: it can be looked at."""

    directory: str
    mount: Mount
    alive: bool

    @property
    def served(self) -> bool:
        """True if a mount of ckptfs serves it, or did before its daemon ended."""
        return self.mount.fstype == FSTYPE


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def table() -> list[Mount]:
    """All mounts of this process, in the order in which they were made."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split()
            rest = fields.index("-")
            found.append(
                Mount(
                    _unescaped(fields[4]), fields[rest + 1], _unescaped(fields[rest + 2]), fields[2]
                )
            )
    return found


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _by_path(path: str, mounts: list[Mount]) -> Mount:
    """The innermost mount that @path lies in; of several at one point the last."""
    found = Mount("/", "?", "?", "")
    for mount in mounts:
        if _is_below(path, mount.point) and len(mount.point) >= len(found.point):
            found = mount
    return found


def place_of(path: Path) -> Place:
    """Where @path lies, or is to lie. OSError: the table of mounts cannot be read."""
    directory = os.path.abspath(os.fspath(path))
    while True:
        try:
            device = os.stat(directory).st_dev
            break
        except OSError as error:
            parent = os.path.dirname(directory)
            if (
                error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
                and parent != directory
            ):
                directory = parent
                continue
            return Place(
                directory, _by_path(os.path.realpath(directory), table()), error.errno not in GONE
            )
    mounts, number = table(), f"{os.major(device)}:{os.minor(device)}"
    # Some filesystems, such as btrfs, tell of devices that the table has not.
    same = [mount for mount in mounts if mount.device == number]
    found = _by_path(os.path.realpath(directory), same or mounts)
    return Place(directory, found if found.device or not same else same[-1], True)


def in_mount(directory: Any) -> bool:
    """True if the directory is there and lies in a mount of ckptfs, whether its daemon runs or
    not."""
    try:
        place = place_of(directory)
        return place.served and (
            not place.alive or place.directory == os.path.abspath(os.fspath(directory))
        )
    except (OSError, ValueError, TypeError):
        return False


def is_path(path: Any) -> bool:
    return isinstance(path, (str, os.PathLike)) and isinstance(os.fspath(path), str)


def to_mount(path: Any) -> bool:
    """True if @path is the path of a file in a mount, which may be there or not."""
    return is_path(path) and in_mount(os.path.dirname(os.path.abspath(os.fspath(path))))


# --- what is wrong ---


def not_mounted(path: Path, place: Place | None = None) -> CheckpointError:
    """The error of a path outside of all mounts."""
    place = place or place_of(path)
    name = os.path.abspath(os.fspath(path))
    kind = "an ordinary directory" if os.path.isdir(place.directory) else "an ordinary file"
    where = f"it is {kind}" if place.directory == name else f"{place.directory} is {kind}"
    others = ", ".join(sorted({mount.point for mount in table() if mount.fstype == FSTYPE}))
    mounted = f"; mounted now: {others}" if others else ""
    return CheckpointError(
        errno.ENOTTY,
        (
            f"{name} lies in no mount of ckptfs: {where} on {place.mount.fstype} "
            f"({place.mount.source}). What is saved there is not protected. "
            f"Mount it first: `ckptfs mount BACKING MOUNTPOINT`{mounted}"
        ),
    )


def gone(path: Path, number: int = errno.ENOTCONN) -> CheckpointError:
    """The error of a path in a mount whose daemon has ended."""
    try:
        point = place_of(path).mount.point
    except OSError:
        point = os.fspath(path)
    return CheckpointError(
        number,
        (
            f"the daemon of {point} is not running. "
            "Earlier checkpoints are safe, and training may go on; "
            "a save that was not committed yet is lost. "
            f"Clear the mount with `ckptfs umount {point}`, then mount again: "
            "this process saves there again, without a restart"
        ),
    )


def is_dead(path: Any) -> bool:
    """True if @path lies in a mount of ckptfs whose daemon has ended."""
    try:
        place = place_of(path)
        # what the kernel remembers of a directory may still be told
        if place.served and place.alive:
            os.statvfs(place.mount.point)
        return place.served and not place.alive
    except OSError as error:
        return error.errno in GONE
    except (ValueError, TypeError):
        return False


@contextlib.contextmanager
def served(path: Any) -> Iterator[None]:
    """Errors in here that come of a daemon which has ended say so. torch tells of some as
    RuntimeError."""
    try:
        yield
    except CheckpointError as error:
        if error.errno in GONE and is_dead(path):
            raise gone(path, error.errno) from error
        raise
    except (OSError, RuntimeError) as error:
        if is_dead(path):
            raise gone(path, getattr(error, "errno", None) or errno.ENOTCONN) from error
        raise


# --- what is required ---


def require(path: Path) -> None:
    """Returns if @path, which need not exist yet, lies in a mount of ckptfs whose daemon runs, and
    libckptfs is found. CheckpointError otherwise: what is there instead, and the way out. Call it
    once, before training."""
    place = place_of(path)
    if not place.served:
        raise not_mounted(path, place)
    if is_dead(path):
        raise gone(path)
    library()


def is_required(path: Path) -> bool:
    """True if CKPTFS_REQUIRE says that @path must lie in a mount. CheckpointError: it says neither
    yes, no nor a path."""
    told = os.environ.get(REQUIRE, "")
    if told.lower() in OFF:
        return False
    if told.startswith("/"):
        top, name = os.path.normpath(told), os.path.abspath(os.fspath(path))
        return _is_below(name, top) or _is_below(os.path.realpath(name), os.path.realpath(top))
    if told.lower() not in _ON:
        raise CheckpointError(
            errno.EINVAL,
            (
                f"{REQUIRE}={told} is neither 1, 0 nor an absolute path. "
                "With 1 every path that ckptfs is given must lie in a mount, "
                "with a path such as /ckpt each one below that"
            ),
        )
    return True


def check_required(path: Any) -> None:
    """Raises what `require` does if CKPTFS_REQUIRE asks for that. What is no path passes."""
    if is_path(path) and is_required(path):
        require(path)
