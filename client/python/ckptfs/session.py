# SPDX-License-Identifier: MIT
"""Sessions: the connection of this process with a mount, by which it writes tensors by handle.
Without torch: what lies in any buffer (bytearray, mmap, array, NumPy) can be written here; lazy.py
does the same for what torch has."""

from __future__ import annotations

import atexit
import ctypes
import errno
import logging
import os
import struct
import threading
import weakref
from typing import (
    Any,
    Callable,
    Iterable,
    Mapping,
    NamedTuple,
    Sequence,
)

from . import _lib, fates, mounts
from ._lib import CheckpointError
from .mounts import GONE

log = logging.getLogger("ckptfs")

# Names are remembered with their ids; a program that makes up new ones at each save begins anew at
# so many.
IDS_MAX = 32768


class Shape(NamedTuple):
    """What the memory is a part of: the type of the elements as safetensors calls it, the shape of
    the whole tensor, and the box of it, in elements."""

    dtype: str
    whole: tuple[int, ...]
    offset: tuple[int, ...]
    length: tuple[int, ...]


class Source(NamedTuple):
    """Memory that is to be in a file: its name, address and length, and its place in the file.
    `keep` is the owner of the memory, which is held until the memory is captured."""

    name: str
    address: int
    nbytes: int
    file_off: int
    keep: Any = None
    memory: int = _lib.HOST
    stream: int = _lib.STREAM_COMPLETE
    device: int = -1
    kind: int = _lib.TENSOR
    eager: bool = False
    shape: Shape | None = None  # None: only the bytes are known


class Scraps(NamedTuple):
    """Pieces of one text that are to be at places of a file: (offset in the file, in the text,
    length)."""

    name: str
    text: bytes
    places: Sequence[tuple[int, int, int]]


def source_of_buffer(name: str, buffer: Any, file_off: int) -> Source:
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError(f"{name}: its bytes do not lie one behind the other; write a copy of it")
    flat = view.cast("B")
    if flat.readonly:  # nobody changes it, and ctypes cannot tell its address
        kept: Any = ctypes.create_string_buffer(flat.tobytes(), flat.nbytes)
    else:
        kept = (ctypes.c_char * flat.nbytes).from_buffer(flat)
    return Source(name, ctypes.addressof(kept), flat.nbytes, file_off, kept)


_OP = struct.Struct("=9Q")  # a WriteOp; field by field ctypes would take ten times as long


def _fill(
    ops: Any,
    sources: Sequence[Source],
    ids: Sequence[int],
    text: Source,
    places: Iterable[tuple[int, int, int]],
) -> None:
    """@ids: of the sources, then of @text, of which @places are."""
    view, pack, size, at = memoryview(ops).cast("B"), _OP.pack_into, _OP.size, 0
    for number, s in zip(ids, sources):
        pack(view, at, number, s.file_off, 0, s.nbytes, s.address, s.stream, 0, 0, 0)
        at += size
    for file_off, start, length in places:
        pack(view, at, ids[-1], file_off, start, length, text.address, text.stream, 0, 0, 0)
        at += size


def _holder(one: Any) -> Callable[[], Any]:
    """What is called as a weak reference is, and is none."""
    return lambda: one


def _versions(sources: Iterable[Source]) -> list[tuple[str, Any, int]]:
    return [(s.name, s.keep, s.keep._version) for s in sources if hasattr(s.keep, "_version")]


def _info_of(s: Source, number: int) -> _lib.TensorInfo:
    """What the daemon is told of @s, once. It refuses a shape that does not fit the bytes."""
    info = _lib.TensorInfo(
        id=number,
        name=s.name.encode(errors="replace")[:1000] or b"?",
        kind=s.kind,
        memory=s.memory,
        bytes=s.nbytes,
        eager=s.eager,
    )
    if s.shape and 0 < len(s.shape.whole) <= _lib.DIMS:
        info.kind, info.dtype = _lib.TENSOR, s.shape.dtype.encode()
        info.ndim = len(s.shape.whole)
        info.global_shape[: info.ndim] = s.shape.whole
        info.shard_offset[: info.ndim] = s.shape.offset
        info.shard_shape[: info.ndim] = s.shape.length
    return info


class Session:
    """A connection of this process with the mount that @path lies in. `ckptfs.save` opens one for
    each mount by itself. To choose rank, cache or threads, open one before the first save; `save`
    then uses it.

    rank, world, local_rank, local_world: which of the job's processes this is; None: as the
    launcher's environment says. arena_bytes: how much cache to borrow; 0: the daemon chooses.
    threads: how many copy at most; 0: 2.

    All methods may be called from any thread. In a child after fork the session is dead:
    CheckpointError (ECHILD). CheckpointError, ENOTTY: the path lies in no mount of ckptfs."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rank: int | None = None,
        world: int = 0,
        local_rank: int | None = None,
        local_world: int = 0,
        arena_bytes: int = 0,
        threads: int = 0,
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        options = _lib.Options(
            -1 if rank is None else rank,
            world,
            -1 if local_rank is None else local_rank,
            local_world,
            arena_bytes,
            threads,
        )
        self._handle: int | None = None
        with mounts.served(self.path):
            self.device = os.stat(self.path).st_dev
            place = mounts.place_of(self.path)
            if not place.served:
                raise mounts.not_mounted(self.path, place)
            self._handle = _lib.open_session(self.path, options)
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ids: dict[tuple[Any, ...], int] = {}
        self._next_id = 1
        self._held: list[Any] = []  # owners of memory that is not captured yet
        self._versions: list[tuple[str, Any, int]] = []
        self._takes: dict[int, bool] = {_lib.HOST: True}
        self._pending = False  # something was written since the last barrier
        self._fenced: set[int] = set()  # streams that wait for copies of devices
        self._devices: set[int] = set()  # of which something is captured
        self.known: list[Any] = []  # what the user has registered: lazy.py looks into it
        _remember(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """True if it is open, in this process."""
        return self._handle is not None and self._pid == os.getpid()

    def _open_handle(self) -> int:
        if self._pid != os.getpid():
            raise CheckpointError(
                errno.ECHILD,
                f"the session is that of process {self._pid}; this is a child of it, open another",
            )
        if self._handle is None:
            raise CheckpointError(errno.EBADF, f"the session with {self.path} is closed")
        return self._handle

    def register(self, *what: Any) -> None:
        """Says what may be captured lazily, because it changes only after a barrier: modules (their
        parameters), optimizers (their parameters and state), tensors, and nests of dicts and lists
        of them. Optimizers of torch.optim and their parameters need not be registered. Modules and
        optimizers are held weakly, all else until `unregister` or the end of the session."""
        self._open_handle()
        with self._lock:
            for one in what:
                try:
                    weak = hasattr(one, "parameters") or hasattr(one, "param_groups")
                    held: Callable[[], Any] = weakref.ref(one) if weak else _holder(one)
                except TypeError:
                    held = _holder(one)
                self.known.append(held)

    def unregister(self, *what: Any) -> None:
        """Undoes `register`; without arguments, all of it."""
        with self._lock:
            self.known = [
                held
                for held in self.known
                if what and held() is not None and not any(held() is one for one in what)
            ]

    def write(
        self,
        file: Any,
        pieces: Mapping[str, Any] | Sequence[tuple[str, Any, int]],
        *,
        eager: bool = False,
    ) -> int:
        """Writes buffers lazily: returns at once, and they must not change before the next barrier.

        file: a descriptor, or an unbuffered file, open for writing. pieces: (name, buffer, offset
        in the file) of each, or a dict of names and buffers, which then lie one behind the other.
        eager: returns when they are written. Returns the offset behind the last of them."""
        if isinstance(pieces, Mapping):
            sources, at = [], 0
            for name, buffer in pieces.items():
                sources.append(source_of_buffer(name, buffer, at))
                at += sources[-1].nbytes
        else:
            sources = [source_of_buffer(*piece) for piece in pieces]
        if eager:
            sources = [s._replace(eager=True) for s in sources]
        self.write_sources(file if isinstance(file, int) else file.fileno(), sources)
        return max((s.file_off + s.nbytes for s in sources), default=0)

    def write_sources(
        self, fd: int, sources: Sequence[Source], scraps: Scraps | None = None
    ) -> None:
        """The same for memory whose address is known: see Source. Takes all or none."""
        sources = [s for s in sources if s.nbytes]
        lazy = [s for s in sources if not s.eager]
        held = [s.keep for s in lazy]
        owners, places = sources, []
        if scraps:
            text = ctypes.create_string_buffer(scraps.text, len(scraps.text))
            held.append(text)
            owners = [
                *sources,
                Source(scraps.name, ctypes.addressof(text), len(scraps.text), 0, kind=_lib.OBJECT),
            ]
            places = [place for place in scraps.places if place[2]]
        if not sources and not places:
            return
        handle = self._open_handle()
        ops = (_lib.WriteOp * (len(sources) + len(places)))()
        with self._lock:
            ids = self._register(handle, owners)
            _fill(ops, sources, ids, owners[-1], places)
            self._pending = self._pending or bool(held)
        versions = _versions(lazy)
        try:
            self._call(_lib.library().ckptfs_write(handle, fd, ops, len(ops)), handle)
        except CheckpointError:
            versions.clear()  # nothing of it was taken
            raise
        finally:
            # Not before: the barrier of another thread, which does not wait for these yet, would
            # let them go.
            with self._lock:
                self._held += held
                self._versions += versions
                self._pending = self._pending or bool(held)
                self._fenced.clear()
                self._devices.update(s.device for s in lazy if s.device >= 0)

    def takes(self, memory: int) -> bool:
        """True if it can capture memory of that kind. Without a usable driver of the GPU it takes
        that of the host only."""
        handle = self._open_handle()
        with self._lock:
            if memory not in self._takes:
                info = _lib.TensorInfo(
                    id=self._next_id, name=b"a first one", kind=_lib.OBJECT, memory=memory, bytes=1
                )
                self._next_id += 1
                self._takes[memory] = (
                    _lib.library().ckptfs_register(handle, ctypes.byref(info), 1) == 0
                )
                if self._takes[memory]:
                    _lib.library().ckptfs_unregister(handle, (ctypes.c_uint64 * 1)(info.id), 1)
            return self._takes[memory]

    def _register(self, handle: int, sources: Sequence[Source]) -> list[int]:
        if len(self._ids) + len(sources) > IDS_MAX:
            old = list(self._ids.values())
            self._ids.clear()
            _lib.library().ckptfs_unregister(handle, (ctypes.c_uint64 * len(old))(*old), len(old))
        ids, infos = [], []
        fresh: dict[tuple[Any, ...], int] = {}
        for s in sources:
            key = (s.name, s.nbytes, s.memory, s.eager, s.shape)
            number = self._ids.get(key) or fresh.get(key)
            if number is None:
                number = self._next_id
                self._next_id += 1
                fresh[key] = number
                infos.append(_info_of(s, number))
            ids.append(number)
        if infos:
            result = _lib.library().ckptfs_register(
                handle, (_lib.TensorInfo * len(infos))(*infos), len(infos)
            )
            self._call(result, handle)
            self._ids.update(fresh)
        return ids

    def _call(self, result: int, handle: int) -> None:
        if result < 0:
            raise self._error(-result, _lib.told(handle) or os.strerror(-result))

    def _error(self, number: int, text: str) -> CheckpointError:
        """The daemon that has ended is named, with the way out."""
        if number in GONE:
            text = (
                f"{text}: {mounts.gone(self.path, number)}"
                if " failed: " in text
                else str(mounts.gone(self.path, number))
            )
        return CheckpointError(number, text)

    @property
    def pending(self) -> bool:
        """True if something was written since the last barrier."""
        return self._pending

    def devices_pending(self) -> set[int]:
        """Devices of which copies may be under way, whose streams a barrier must order behind
        them."""
        return self._devices

    def barrier(
        self, streams: Sequence[int] = (), *, landed: bool = False, timeout: float | None = None
    ) -> None:
        """Returns when what was written may change. It waits for captures, never for storage.

        streams: handles of CUDA streams; work that is enqueued there from then on runs behind the
        copies. landed: waits for these copies, too. timeout: in seconds; None: 120.
        CheckpointError: a save has failed since the last barrier; it names the file, which is not
        committed. The tensors may change all the same."""
        self._barrier(streams, landed, timeout)
        fates.raise_first()

    def _barrier(
        self, streams: Sequence[int] = (), landed: bool = False, timeout: float | None = None
    ) -> None:
        handle = self._open_handle()
        with self._lock:
            self._pending = False
            held, self._held = self._held, []
            idle = not held
            versions, self._versions = self._versions, []
        numbers = (ctypes.c_uint64 * len(streams))(*streams)
        nanoseconds = 0 if timeout is None else max(int(timeout * 1e9), 1)
        result = _lib.library().ckptfs_barrier(
            handle, numbers, len(streams), _lib.LANDED if landed else 0, nanoseconds
        )
        text = _lib.told(handle) if result < 0 else ""
        with self._lock:
            self._fenced.update(streams)
            if self._devices and not landed and self._pending_captures(handle):
                self._held += held  # copies of devices go on
            elif not self._pending:
                self._devices.clear()
        if -result in GONE:
            # the daemon, and with it the session, is gone: the next save opens another
            self.close()
        if result < 0 and not (idle and -result in GONE):
            error = self._error(
                -result, (text or os.strerror(-result)) + _changed(versions, -result)
            )
            fates.was_told(error)
            raise error

    def barrier_in_hook(self, streams: Sequence[int] = ()) -> None:
        """The same before an update, which it never keeps from being made: what has failed is
        logged, and raised by the next call that can, such as `save`."""
        if not self._pending and (not self._devices or self._fenced.issuperset(streams)):
            return
        if not self.alive:
            return
        try:
            self._barrier(streams)
        except CheckpointError as error:
            log.error("%s", error)
            fates.add(f"barrier {id(error)}", error)

    def _pending_captures(self, handle: int) -> int:
        stats = _lib.SessionStats()
        return (
            stats.pending
            if _lib.library().ckptfs_session_stats(handle, ctypes.byref(stats)) == 0
            else 0
        )

    def stats(self) -> _lib.SessionStats:
        """Numbers: what was captured, what waits, how long barriers have blocked."""
        handle, stats = self._open_handle(), _lib.SessionStats()
        self._call(_lib.library().ckptfs_session_stats(handle, ctypes.byref(stats)), handle)
        return stats

    def close(self) -> None:
        """Waits as a barrier does, fails what has not landed then, and ends the session. In a child
        after fork: nothing."""
        with self._lock:
            handle, self._handle = self._handle, None
        _forget(self)
        if handle is not None and self._pid == os.getpid():
            _lib.library().ckptfs_close(handle)
            self._held.clear()
            # the mount may be gone, and its files removed, when this is asked next
            fates.look(self.device)

    def __repr__(self) -> str:
        return f"<ckptfs.Session of {self.path}{'' if self.alive else ', closed'}>"


def _changed(versions: Sequence[tuple[str, Any, int]], error: int) -> str:
    """The way out, and which tensors torch knows to have changed since they were written; that it
    names none proves nothing."""
    if error != errno.ESTALE:
        return ""
    names = list(
        dict.fromkeys(name for name, tensor, version in versions if tensor._version != version)
    )
    known = "; torch knows that these were changed since: " + ", ".join(names[:5]) if names else ""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return (
        f"{known}{more}. Call ckptfs.barrier() before you change weights outside optimizer.step(). "
        "Earlier checkpoints stand"
    )


# --- the sessions of this process, one for each mount ---

_sessions: dict[int, Session] = {}
_sessions_lock = threading.RLock()
opened: list[Any] = []  # called with each new session: lazy.py puts its hooks there
before: list[Callable[[], None]] = []  # called before barriers: for what is to be written by then


def _remember(session: Session) -> None:
    with _sessions_lock:
        old = _sessions.get(session.device)
        if old is None or not old.alive:
            _sessions[session.device] = session
    for call in opened:
        call(session)


def _forget(session: Session) -> None:
    with _sessions_lock:
        if _sessions.get(session.device) is session:
            del _sessions[session.device]


def sessions() -> list[Session]:
    """Those that are open."""
    return [session for session in list(_sessions.values()) if session.alive]


def session_at(directory: str | os.PathLike[str]) -> Session | None:
    """That which is open with the mount of @directory, if any."""
    found = _sessions.get(os.stat(directory).st_dev)
    return found if found is not None and found.alive else None


def session_of(path: str | os.PathLike[str]) -> Session:
    """The session with the mount that @path lies in; opens it if there is none. @path is a
    directory, or a file that is there or yet to come. CheckpointError, ENOTTY: it lies in no
    mount."""
    path = os.path.abspath(os.fspath(path))
    directory = path if os.path.isdir(path) else os.path.dirname(path)
    with _sessions_lock, mounts.served(directory):
        found = session_at(directory)
        if found is None:
            _close_unmounted()
            found = Session(directory)
        return found


def _close_unmounted() -> None:
    """Those whose mount is no longer where it was."""
    for session in sessions():
        try:
            there = os.stat(session.path).st_dev == session.device
        except OSError:
            there = False
        if not there:
            session.close()


def call_before() -> None:
    for call in list(before):
        call()


def barrier(*, landed: bool = False, timeout: float | None = None) -> None:
    """Waits until what was saved may change, in all sessions: call it before tensors that were
    saved change anywhere but in optimizer.step(), which begins with one. It waits for captures,
    never for storage.

    landed: waits for copies of GPUs, too. timeout: in seconds; None: 120.
    CheckpointError: a save has failed since it returned; the text names its file. The tensors may
    change all the same."""
    failed = None
    call_before()
    for session in sessions():
        try:
            session._barrier(_streams(session), landed, timeout)
        except CheckpointError as error:
            failed = failed or error
    if failed:
        raise failed
    fates.raise_first()


def _streams(session: Session) -> list[int]:
    if not session.devices_pending():
        return []
    from . import lazy

    return lazy.current_streams(session.devices_pending())


def _close_all() -> None:
    """At the end of the program: what nobody has been told of, the log tells."""
    for session in sessions():
        try:
            session._barrier(landed=True)
        except CheckpointError as error:
            log.error("%s", error)
        session.close()
    fates.end()
    for failure in fates.failures():
        log.error("%s", failure)


def _after_fork() -> None:
    global _sessions_lock
    _sessions_lock = threading.RLock()
    _sessions.clear()
    fates.clear()
    _lib.after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
