# SPDX-License-Identifier: MIT
"""libckptfs by ctypes: where it is, its structs and functions (client/ckptfs.h), and its errors."""

from __future__ import annotations

import ctypes
import errno
import json
import logging
import os
import shutil
import sysconfig
import threading
import urllib.parse
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

SONAME = "libckptfs.so.1"

HOST, HOST_PINNED, CUDA, CUDA_MANAGED = range(4)
STORAGE, TENSOR, OBJECT = range(3)
LANDED = 1
CAPTURED, DURABLE, COMMITTED = 2, 3, 4
VERIFY, STRUCTURE = 1, 2
STREAM_COMPLETE = (1 << 64) - 1


class CheckpointError(OSError):
    """A checkpoint could not be saved, read or waited for. The text names the file or tensor, the
    cause and the way out. An OSError; its `errno` tells the kinds apart: ESTALE, a tensor was
    changed before it was captured; ENOTCONN, the daemon is not running; ENOTTY, the path lies in no
    mount of ckptfs; ENOSPC, the storage is full; ETIMEDOUT, and so on."""

    def __str__(self) -> str:
        return str(self.strerror)


class LibraryNotFound(CheckpointError):
    """There is no libckptfs that can be loaded. The text says where it was looked for, and how to
    have it."""


class Options(Structure):
    _fields_ = [
        ("rank", c_int),
        ("world", c_int),
        ("local_rank", c_int),
        ("local_world", c_int),
        ("arena_bytes", c_uint64),
        ("threads", c_uint),
    ]


DIMS = 8  # of a shape, at most
# The name of an object that no commit file lists.
UNLISTED = "what lies between tensors"


class TensorInfo(Structure):
    _fields_ = [
        ("id", c_uint64),
        ("name", c_char_p),
        ("kind", c_int),
        ("memory", c_int),
        ("dtype", c_char_p),
        ("ndim", c_uint),
        ("global_shape", c_uint64 * DIMS),
        ("shard_offset", c_uint64 * DIMS),
        ("shard_shape", c_uint64 * DIMS),
        ("bytes", c_uint64),
        ("eager", c_int),
    ]


class WriteOp(Structure):
    _fields_ = [
        ("id", c_uint64),
        ("file_off", c_uint64),
        ("src_off", c_uint64),
        ("len", c_uint64),
        ("addr", c_void_p),
        ("stream", c_uint64),
        ("rows", c_uint64),
        ("row_bytes", c_uint64),
        ("pitch", c_uint64),
    ]


class SessionStats(Structure):
    """What ckptfs_session_stats tells: see client/ckptfs.h."""

    _fields_ = [
        (name, c_uint64)
        for name in (
            "captures",
            "captured_bytes",
            "failed",
            "pending",
            "pending_bytes",
            "barriers",
            "barrier_ns",
            "arena_bytes",
            "pinned_bytes",
        )
    ]

    captures: int
    captured_bytes: int
    failed: int
    pending: int
    pending_bytes: int
    barriers: int
    barrier_ns: int
    arena_bytes: int
    pinned_bytes: int

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)}" for name, *_ in self._fields_)
        return f"SessionStats({fields})"


# Name, arguments; all return int but those named below.
_FUNCTIONS = {
    "ckptfs_open": (c_char_p, POINTER(Options), POINTER(c_void_p)),
    "ckptfs_close": (c_void_p,),
    "ckptfs_error": (c_void_p,),
    "ckptfs_version": (),
    "ckptfs_register": (c_void_p, POINTER(TensorInfo), c_size_t),
    "ckptfs_unregister": (c_void_p, POINTER(c_uint64), c_size_t),
    "ckptfs_is_staged": (c_int,),
    "ckptfs_write": (c_void_p, c_int, POINTER(WriteOp), c_size_t),
    "ckptfs_barrier": (c_void_p, POINTER(c_uint64), c_size_t, c_uint, c_uint64),
    "ckptfs_session_stats": (c_void_p, POINTER(SessionStats)),
    "ckptfs_wait": (c_char_p, c_int, c_uint64),
    "ckptfs_commit": (c_char_p,),
    "ckptfs_abandon": (c_char_p,),
    "ckptfs_latest": (c_char_p, c_uint, c_char_p, c_size_t),
}
_RETURNS = {"ckptfs_close": None, "ckptfs_error": c_char_p, "ckptfs_version": c_char_p}

_loaded: ctypes.CDLL | None = None
_without: set[str] = set()  # what was said
_said_missing = False
_lock = threading.Lock()
log = logging.getLogger("ckptfs")


def candidates() -> list[str]:
    """Where libckptfs is looked for, in this order: CKPTFS_LIB alone if it is set (a file, or the
    directory of one); the build directory of the source tree that this package lies in; a copy in
    this package; wherever the dynamic linker looks; /usr/local/lib and /usr/lib, which a linker
    without a new cache does not; beside the command ckptfs; the build directory of the source tree
    that pip has installed this package from."""
    told = os.environ.get("CKPTFS_LIB")
    if told:
        return [os.path.join(told, SONAME) if os.path.isdir(told) else told]
    here = os.path.dirname(os.path.abspath(__file__))
    found = [
        *_built(os.path.dirname(os.path.dirname(os.path.dirname(here))), here),
        os.path.join(here, SONAME),
        SONAME,
    ]
    for prefix in ("/usr/local", "/usr", _prefix_of_command()):
        if prefix:
            found += [os.path.join(prefix, name, SONAME) for name in _library_directories()]
    found += _built(_installed_from(), None)
    return list(dict.fromkeys(found))


def _built(top: str, package: str | None) -> list[str]:
    """The library that `make` has built in the source tree @top; @package: only if that is the
    package of this tree."""
    if not top or not os.path.exists(os.path.join(top, "client", "ckptfs_abi.h")):
        return []
    if package and os.path.join(top, "client", "python", "ckptfs") != package:
        return []
    return [os.path.join(top, "build", "lib", SONAME)]


def _library_directories() -> list[str]:
    multiarch = sysconfig.get_config_var("MULTIARCH")
    return ["lib", "lib64"] + ([os.path.join("lib", multiarch)] if multiarch else [])


def _prefix_of_command() -> str:
    command = shutil.which("ckptfs")
    return os.path.dirname(os.path.dirname(os.path.realpath(command))) if command else ""


def _installed_from() -> str:
    """The source tree that pip has installed this package from, as pip has noted it; "": not from
    one."""
    try:
        from importlib import metadata

        told = json.loads(metadata.distribution("ckptfs").read_text("direct_url.json") or "{}")
        path = urllib.parse.unquote(urllib.parse.urlparse(told.get("url", "")).path)
    except Exception:  # it was not installed, or by another program
        return ""
    return os.path.dirname(os.path.dirname(path.rstrip("/"))) if path else ""


def _opened(path: str) -> ctypes.CDLL:
    """OSError: it cannot be loaded, or is of another release; why."""
    lib = ctypes.CDLL(path)
    missing = [name for name in _FUNCTIONS if not hasattr(lib, name)]
    if missing:
        version = "an older release"
        if len(missing) == len(_FUNCTIONS):
            raise OSError("it is no libckptfs")
        if hasattr(lib, "ckptfs_version"):
            lib.ckptfs_version.restype = c_char_p
            version = "release " + lib.ckptfs_version().decode(errors="replace")
        from . import __version__

        raise OSError(
            f"it is of {version} and lacks {missing[0]}, and this package is of release "
            f"{__version__}: use those of one release"
        )
    for name, arguments in _FUNCTIONS.items():
        function = getattr(lib, name)
        function.argtypes, function.restype = arguments, _RETURNS.get(name, c_int)
    return lib


def _why(path: str, error: OSError) -> str:
    """Without the path, which the loader's text has, too."""
    text = str(error)
    if "cannot open shared object file" in text and (
        "No such file" in text or os.path.sep not in path
    ):
        text = "not there" if os.path.sep in path else "the system's loader does not know it"
    elif text.startswith(path + ": "):
        text = text[len(path) + 2 :]
    return f"{path}: {text}"


def _load() -> ctypes.CDLL:
    tried = []
    for path in candidates():
        try:
            return _opened(path)
        except OSError as error:
            tried.append(_why(path, error))
    if os.environ.get("CKPTFS_LIB"):
        way = "correct or unset CKPTFS_LIB"
    else:
        way = (
            "install it (`make install` in the source tree of ckptfs), then run `sudo ldconfig`; "
            "or set CKPTFS_LIB to its path"
        )
    raise LibraryNotFound(errno.ENOENT, f"no libckptfs: {'; '.join(tried)}. To have it: {way}")


def library() -> ctypes.CDLL:
    """libckptfs, loaded on the first use. LibraryNotFound: there is none."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def without_library(what: str, error: LibraryNotFound) -> None:
    """Says once for each call of the package how it does without the library; where it was looked
    for with the first."""
    global _said_missing
    with _lock:
        if what in _without:
            return
        _without.add(what)
        text = str(error) if not _said_missing else "no libckptfs"
        _said_missing = True
    log.warning("%s: %s", what, text)


def after_fork() -> None:
    """For a child: the thread that held the lock, if one did, is not there to release it."""
    global _lock
    _lock = threading.Lock()


def loaded() -> bool:
    """True if it has been."""
    return _loaded is not None


def told(session: int | None = None) -> str:
    """What ckptfs_error says: why the last call on this thread with this session (or without any)
    failed."""
    text = library().ckptfs_error(session)
    return text.decode(errors="replace") if text else ""


def check(result: int) -> int:
    """@result, of a call without a session, or the exception that it stands for."""
    if result < 0:
        raise CheckpointError(-result, told() or os.strerror(-result))
    return result


def open_session(path: str, options: Options) -> int:
    handle = c_void_p()
    check(library().ckptfs_open(os.fsencode(path), byref(options), byref(handle)))
    return handle.value or 0
