# SPDX-License-Identifier: MIT
"""torch.save, lazily: what torch writes beside the storages is written, and the storages by
handle."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import logging
import os
import pickle
import threading
from typing import Any, Callable, Iterable, Iterator, List, Sequence, Tuple

import torch

from . import _lib, fates, hooks, known, mounts, reuse, skeleton
from . import session as sessions_module
from ._lib import CheckpointError, LibraryNotFound
from .ahead import RegisteredObject
from .files import no_directory
from .mounts import GONE
from .session import Scraps, Session, Shape, Source, session_of, source_of_buffer
from .skeleton import torch_save

log = logging.getLogger("ckptfs")
current_streams = hooks.current_streams

NO_MOUNT, NO_DIRECTORY = "it lies in no mount of ckptfs", "its directory does not exist"

# For one more session; there may be at the next save.
NO_ROOM = (errno.ENOMEM, errno.EUSERS)

_IOV_MAX = 1024
_END = 64 << 10  # of an object: what says that it is whole lies there
_SHORT, _SHORT_ALL, _FEW = 64 << 10, 32 << 20, 8  # bytes of one, of all; parts

_Run = Tuple[int, List[Any]]

_said: set[str] = set()
_said_lock = threading.Lock()


def _first(what: str) -> bool:
    with _said_lock:
        if what in _said:
            return False
        _said.add(what)
    return True


def say_once(path: Any, why: str) -> None:
    """Why a save is not lazy; once for each reason."""
    if not _first(why):
        return
    if why == NO_MOUNT:
        log.warning(
            (
                "saved as on any filesystem: %s. "
                "ckptfs.require(path), or CKPTFS_REQUIRE=1, makes that an error"
            ),
            mounts.not_mounted(path),
        )
    else:
        log.warning("%s is saved without being captured lazily: %s", path, why)


def _unclaimed(path: Any) -> None:
    """The save of @path, in a mount, is written, and is no checkpoint: no rule claims its name."""
    text = (
        f"{os.path.basename(os.fspath(path))} is no name of a checkpoint here: "
        "not lazy, not atomic, no digest. "
        "Call it .pt or .safetensors, or add a rule (ckptfs-rules(5))"
    )
    if mounts.is_required(path):
        raise CheckpointError(errno.EINVAL, f"{os.fspath(path)} was written, but {text}")
    if _first("unclaimed"):
        log.warning("%s", text)


def register(*what: Any, path: Any) -> Session:
    """Registers modules, optimizers or state_dicts with the session of the mount that @path lies
    in, which it opens if there is none: they may then be captured lazily. See Session.register.
    Returns the session."""
    session = session_of(path)
    session.register(*what)
    return session


def _why_not(path: Any, arguments: Any) -> str:
    """Why this call cannot be lazy, whatever is saved."""
    if not arguments.get("_use_new_zipfile_serialization", True):
        return "the old format of torch.save has no place that is known before"
    return skeleton.available()


def session_for(path: Any) -> tuple[Session | None, str]:
    """The session of the mount that @path lies in; or why there is none. CheckpointError: no save
    can be made there."""
    mounts.check_required(path)
    try:
        return session_of(path), ""
    except LibraryNotFound as error:
        return None, str(error)
    except CheckpointError as error:
        if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP):
            return None, NO_MOUNT
        if error.errno in NO_ROOM:
            return None, str(error)
        raise
    except (FileNotFoundError, NotADirectoryError):
        return None, NO_DIRECTORY


class Writer:
    """Puts skeletons, and what their holes are filled with, into one file. What says that a file is
    whole is written last: one that is left before cannot be taken for whole. Without a session
    nothing of it is lazy."""

    def __init__(self, session: Session | None, lazy: Any = None) -> None:
        self.session = session
        self.lazy = known.lazy_keys(session) if lazy is None else lazy
        self.parts: list[tuple[int, Any]] = []
        self.sources: list[Source] = []
        self.head_last = False  # it is the head without which a file is none, not the end
        # More parts, behind all others, which are made while tensors are captured.
        self.late: Iterable[tuple[int, Any]] = ()

    def add(self, planned: reuse.Planned) -> None:
        """All of the file."""
        self.parts += planned.plan.parts
        for (at, storage), (name, tensor) in zip(planned.plan.holes, planned.names):
            self.add_storage(storage, tensor, name or "tensor", at, _shape_of(storage, tensor))

    def is_lazy(self, tensor: Any) -> bool:
        """May this tensor be captured lazily, as a piece of memory?"""
        return (
            tensor.nbytes >= known.LAZY_MIN
            and is_plain(tensor)
            and known.storage_key(tensor) in self.lazy
            and self._takes(known.kind_of(tensor.device))
        )

    def _takes(self, kind: str) -> bool:
        """Memory of such a device?"""
        return self.session is not None and (
            kind == "cpu" or kind == "cuda" and self.session.takes(_lib.CUDA)
        )

    def add_storage(
        self, storage: Any, tensor: Any, name: str, at: int, shape: Shape | None = None
    ) -> None:
        key = address, nbytes, device = known.key_of(storage)
        kind = known.kind_of(device)
        if nbytes >= known.LAZY_MIN and key in self.lazy and self._takes(kind):
            self.sources.append(source_of(address, nbytes, device, name, at, tensor, shape))
        else:
            here = storage if kind == "cpu" else storage.cpu()
            self.parts.append((at, _Bytes(here)))

    def add_tensor(
        self, tensor: Any, name: str, at: int, shape: Shape | None = None, part: bool = False
    ) -> None:
        """One without gaps, of which nothing but its elements is to be there. @part: @shape says
        what it is a part of, or is None where that is unknown. Else it is the whole tensor."""
        if self.is_lazy(tensor):
            self.sources.append(
                source_of(
                    tensor.data_ptr(),
                    tensor.nbytes,
                    tensor.device,
                    name,
                    at,
                    tensor,
                    shape if part else known.whole(tensor),
                )
            )
        elif tensor.nbytes:
            here = tensor.cpu().contiguous()
            if here.untyped_storage().nbytes() != here.nbytes:
                here = here.clone()
            self.parts.append((at, _Bytes(here.untyped_storage())))

    def add_object(self, data: memoryview, name: str, at: int) -> int:
        """Bytes that nobody changes any more; their number."""
        begin = max(len(data) - _END, 0) if self.session else 0
        if begin:
            source = source_of_buffer(name, data[:begin], at)
            self.sources.append(source._replace(kind=_lib.OBJECT))
        self.parts.append((at + begin, data[begin:]))
        return len(data)

    def write(self, fd: int) -> None:
        self.parts.sort(key=lambda part: part[0])
        runs = _runs(self.parts)
        last = runs.pop(0 if self.head_last else -1) if runs else None
        small = _small(runs) if self.session else None
        for run in runs:
            _write_run(fd, *run)
        if self.session:
            self.session.write_sources(fd, self.sources, small)
        for at, data in self.late:
            _write_run(fd, at, [data])
        if last:
            _write_run(fd, *last)


def is_plain(tensor: Any) -> bool:
    """Are its bytes what lies at its address, one behind the other?"""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return (
        tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)
        and known.kind_of(tensor.device) in ("cpu", "cuda")
    )


class _Bytes:
    """Those of a storage of the host, which it keeps."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage

    def __len__(self) -> int:
        return int(self.storage.nbytes())

    def copy(self) -> bytes:
        return ctypes.string_at(self.storage.data_ptr(), self.storage.nbytes())


def _shape_of(storage: Any, tensor: Any) -> Shape | None:
    """That of @tensor, if it is all of @storage in row-major order."""
    if tensor is None or tensor.nbytes != storage.nbytes() or not is_plain(tensor):
        return None
    return known.whole(tensor)


def source_of(
    address: int,
    nbytes: int,
    device: Any,
    name: str,
    at: int,
    keep: Any,
    shape: Shape | None = None,
) -> Source:
    """Memory of torch: that of a CUDA device is produced by the stream that is current there."""
    if known.kind_of(device) == "cpu":
        return Source(name, address, nbytes, at, keep, kind=_lib.STORAGE, shape=shape)
    return Source(
        name,
        address,
        nbytes,
        at,
        keep,
        _lib.CUDA,
        torch.cuda.current_stream(device).cuda_stream,
        device.index,
        _lib.STORAGE,
        shape=shape,
    )


def _runs(parts: Sequence[tuple[int, Any]]) -> list[_Run]:
    """What lies one behind the other, together."""
    runs: list[_Run] = []
    end = -1
    for off, data in parts:
        if off != end:
            run: list[Any] = []
            runs.append((off, run))
        run.append(data)
        end = off + len(data)
    return runs


def _small(runs: list[_Run]) -> Scraps | None:
    """Takes the short ones out of @runs: what lies between tensors. To write each by a call of its
    own would take longer than all else; a copy of them goes by handle, all together."""
    sizes = [sum(map(len, run)) for _, run in runs]
    if len([size for size in sizes if size <= _SHORT]) < _FEW:
        return None
    taken: list[bytes] = []
    places, long, start = [], [], 0
    for (at, run), size in zip(runs, sizes):
        if size > _SHORT or start + size > _SHORT_ALL:
            long.append((at, run))
            continue
        taken += [data.copy() if isinstance(data, _Bytes) else data for data in run]
        places.append((at, start, size))
        start += size
    runs[:] = long
    return Scraps(_lib.UNLISTED, b"".join(taken), places)


def _view(data: Any) -> memoryview:
    return known.memory_of(data.storage) if isinstance(data, _Bytes) else memoryview(data)


def _write_run(fd: int, at: int, run: list[Any]) -> None:
    views = [view for view in map(_view, run) if view.nbytes]
    while views:
        written = os.pwritev(fd, views[:_IOV_MAX], at)
        at += written
        while views and written >= views[0].nbytes:
            written -= views.pop(0).nbytes
        if written:
            views[0] = views[0][written:]


def _opened(path: Any) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with mounts.served(path):
        try:
            return os.open(path, flags, 0o666)
        except OSError:
            if not fates.take_told():
                raise
            return os.open(path, flags, 0o666)  # that was what the program knows already


def write_to_path(writer: Writer, path: Any) -> None:
    """Makes a new file of what was added."""
    fates.forget(path)
    try:
        fd = _opened(path)
    except IsADirectoryError as error:
        raise CheckpointError(
            errno.EISDIR,
            (
                f"{os.fspath(path)} is a directory: give the name of a file, such as "
                f"{os.path.join(os.fspath(path), 'step-1.pt')}"
            ),
        ) from error
    except CheckpointError:
        raise
    except OSError as error:
        fates.raise_first()  # the failure of an earlier save, which the daemon tells thus
        raise _whole(error, path) from error
    # what the open has told: later the storage may be asked, behind what is written by then
    there = os.fstat(fd)
    try:
        staged = not writer.session or _lib.library().ckptfs_is_staged(fd) != 0
        with mounts.served(path):
            writer.write(fd)
    except CheckpointError:
        _close_quietly(fd)
        raise
    except OSError as error:
        _close_quietly(fd)
        raise _whole(error, path) from error
    except BaseException:
        _close_quietly(fd)
        raise
    try:  # it tells of what has failed since it was opened
        os.close(fd)
    except OSError as error:
        raise _whole(error, path) from error
    if staged and writer.session:
        fates.watch(path, there)
    elif not staged:
        _unclaimed(path)


def _close_quietly(fd: int) -> None:
    with contextlib.suppress(OSError):  # which says no more than what has failed before
        os.close(fd)


def _whole(error: OSError, path: Any) -> CheckpointError:
    """The same, with what the mount says of the file."""
    if mounts.is_dead(path):
        return mounts.gone(path, error.errno or errno.ENOTCONN)
    library = _lib.library() if _lib.loaded() else None
    result = library.ckptfs_wait(os.fsencode(path), _lib.COMMITTED, 0) if library else 0
    if result in (0, -errno.ETIMEDOUT, -errno.ENOTTY, -errno.EOPNOTSUPP):  # it knows of no failure
        return CheckpointError(error.errno, f"{path}: {error.strerror}; `ckptfs why` tells more")
    return CheckpointError(error.errno, _lib.told())


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """The many small objects of a save would make Python look for garbage, in all that the program
    has."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def save(
    obj: Any, f: Any, pickle_module: Any = pickle, pickle_protocol: int = 2, **arguments: Any
) -> None:
    """Saves as torch.save does, whose arguments it takes, and writes the same file. On a mount of
    ckptfs it returns before parameters, the state of known optimizers, and what was registered are
    captured; they must not change before the next barrier, and every optimizer's step begins with
    one. All else is written when it returns. A return means: accepted. `ckptfs.wait(path)` says
    when the checkpoint is kept.

    Where it cannot be lazy (another filesystem, a torch without skip_data, unusual tensors, f is a
    file object) it is torch.save, and a warning of the logger `ckptfs` says why, once.

    @obj may be what `register_object` has returned: then its bytes are written, and the arguments
    do not count.

    CheckpointError: this save fails; or an earlier one has failed since it returned, which the text
    names, and this one is not made."""
    _check_arguments(obj, f)
    if isinstance(obj, RegisteredObject):
        _save_object(obj, f)
        return
    why = "f is no path" if not mounts.is_path(f) else _why_not(f, arguments)
    arguments = dict(arguments, pickle_module=pickle_module, pickle_protocol=pickle_protocol)
    session = None
    if not why:
        session, why = session_for(f)
    if session is None:
        if why == NO_DIRECTORY:
            raise no_directory(f)
        say_once(f, why)
        mounts.check_required(f)
        with mounts.served(f):
            torch_save(obj, f, **arguments)
        return
    fates.raise_first()
    with _uncollected():
        try:
            planned = reuse.plan(obj, **arguments)
        except skeleton.Unplanned as error:
            say_once(f, str(error))
            planned = None
        if planned:
            _save_in(session, f, lambda writer: writer.add(planned))
            return
    with mounts.served(f):
        torch_save(obj, f, **arguments)
    fates.watch(f)


def _check_arguments(obj: Any, f: Any) -> None:
    if mounts.is_path(obj) and not mounts.is_path(f) and not hasattr(f, "write"):
        raise TypeError("ckptfs.save(obj, path): the path comes second, as in torch.save")


def _save_object(obj: RegisteredObject, f: Any) -> None:
    session, why = session_for(f) if mounts.is_path(f) else (None, "f is no path")
    if session is not None:
        fates.raise_first()
    data = obj.take()
    if session is not None:
        _save_in(session, f, lambda writer: writer.add_object(data, "object", 0))
        return
    if why == NO_DIRECTORY:
        raise no_directory(f)
    say_once(f, why)
    if not mounts.is_path(f):
        f.write(data)
        return
    mounts.check_required(f)
    with mounts.served(f), open(f, "wb") as file:
        file.write(data)


def _save_in(session: Session, path: Any, add: Callable[[Writer], Any]) -> None:
    """Writes the file that @add puts together."""
    try:
        _write(session, path, add)
    except CheckpointError as error:
        if error.errno not in GONE:
            raise
        session.close()  # a daemon that was started anew knows nothing of it
        with mounts.served(path):
            _write(session_of(path), path, add)


def _write(session: Session, path: Any, add: Callable[[Writer], Any]) -> None:
    writer = Writer(session)
    add(writer)
    write_to_path(writer, path)


sessions_module.opened.append(hooks.install)
for _session in sessions_module.sessions():
    hooks.install(_session)
