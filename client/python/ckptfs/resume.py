# SPDX-License-Identifier: MIT
"""What becomes of checkpoints, and which to go on from. Needs no torch, but for `latest` with a
group."""

from __future__ import annotations

import ctypes
import errno
import fnmatch
import json
import logging
import os
import re
import stat
import time
from typing import Any

from . import _lib, fates, mounts
from ._lib import CheckpointError, LibraryNotFound
from .mounts import Path

log = logging.getLogger("ckptfs")

PATH_MAX = 4096
WITHOUT_END = (1 << 64) - 1
_STATES = {"captured": _lib.CAPTURED, "durable": _lib.DURABLE, "committed": _lib.COMMITTED}
_CHECKS = {"full": _lib.VERIFY, "structure": _lib.STRUCTURE, "none": 0}

# For `latest` without libckptfs: names of files that are checkpoints though ckptfs did not write
# them, as the built-in rules single-file and hugging-face have them; of files that name a
# checkpoint, and have a record, too; and the records of ckptfs.
_FOREIGN = (
    "?*.pt",
    "?*.pth",
    "?*.ckpt",
    "?*.safetensors",
    "?*.keras",
    "pytorch_model*.bin",
    "adapter_model*.bin",
    "diffusion_pytorch_model*.bin",
    "pytorch_lora_weights*.bin",
    "model*.bin",
    "optimizer*.bin",
    "scheduler*.bin",
    "sampler*.bin",
    "training_args.bin",
    "random_states_*.pkl",
    "tf_model*.h5",
    "flax_model*.msgpack",
)
_POINTERS = ("latest", "latest_checkpointed_iteration.txt", "checkpoint")
_RECORD = re.compile(rb"[0-9a-f]{32} (0|[1-9][0-9]{0,19}) (0|[1-9][0-9]{0,19})")
_COMMIT_FILE, _DIGEST, _STATE = ".ckptfs-commit.json", "user.ckptfs.xxh3", "user.ckptfs.state"


def _served(path: Path) -> None:
    """ENOTTY: a promise about @path was asked for that nobody can make."""
    place = mounts.place_of(path)
    if not place.served:
        raise mounts.not_mounted(path, place)
    if mounts.is_dead(path):
        raise mounts.gone(path)


def wait(path: Path, state: str = "committed", timeout: float | None = None) -> None:
    """Waits until the checkpoint at @path, a file or a directory, has come so far: "captured", its
    tensors may change; "durable", its bytes are on the backing; "committed", it has its name there,
    whole, and survives a crash of process, daemon and host.

    timeout: in seconds; 0 looks once; None waits without end, also for a path that does not exist
    yet. CheckpointError: the save has failed, and why; ETIMEDOUT, with what is missing; ENOTTY, the
    path lies in no mount."""
    if state not in _STATES:
        raise ValueError(f"{state!r} is no state to wait for; these are: {', '.join(_STATES)}")
    end = None if timeout is None else time.monotonic() + timeout
    with mounts.served(path):
        _served(path)
        left = 0  # at first: what is absent may come, what has failed is not shown
        while True:
            result = _lib.library().ckptfs_wait(os.fsencode(path), _STATES[state], left)
            if result == -errno.ETIMEDOUT and end is None and not os.path.lexists(path):
                log.warning(
                    (
                        "%s does not exist yet: "
                        "ckptfs.wait waits for it without end, unless it is given a timeout"
                    ),
                    os.fspath(path),
                )
            if (
                result == -errno.EINTR
                or result == -errno.ETIMEDOUT
                and (end is None or time.monotonic() < end)
            ):
                # Handlers of signals run now, and may raise.
                left = WITHOUT_END if end is None else max(int((end - time.monotonic()) * 1e9), 0)
                continue
            if result != -errno.ETIMEDOUT and not (result == 0 and state != "committed"):
                fates.forget(path)  # the caller hears of it now
            _lib.check(result)
            return


def commit(path: Path) -> None:
    """Says that the checkpoint directory @path is whole, where no rule can know: it is committed as
    soon as all of it is closed and on the backing. For layouts that ckptfs does not know."""
    _say(path, _lib.library().ckptfs_commit)


def abandon(path: Path) -> None:
    """Gives up the checkpoint directory @path that is being written: it fails, and its name shows
    what it was before."""
    _say(path, _lib.library().ckptfs_abandon)
    fates.forget(path)


def _say(path: Path, call: Any) -> None:
    with mounts.served(path):
        _served(path)
        _lib.check(call(os.fsencode(path)))


# --- the newest ---


def latest(directory: Path, *, verify: bool | str = "structure", group: Any = None) -> str | None:
    """The path of the newest committed checkpoint at or below @directory, which lies in a mount, or
    is a bare backing, or any directory. None: there is none. A checkpoint that is being saved does
    not count. If none is committed, the newest checkpoint file that ckptfs did not write, and a
    warning says so.

    verify: what is checked of it; one that does not pass is skipped with a warning.
        "structure": each file is there with its size, as its commit file lists.
            Reads no content: some milliseconds.
        "full" or True: all bytes have the digests of the save.
            Reads the whole checkpoint: as long as a load.
        "none" or False: nothing.
    group: a process group of torch.distributed, or True for the default one. Its first rank looks
        and tells the others, so that all go on from the same checkpoint. All ranks of the group
        must call it.

    CheckpointError: there is no such directory, or it cannot be looked at; with a group on all
    ranks."""
    how = {True: "full", False: "none", None: "none"}.get(verify, verify)  # type: ignore[arg-type]
    if how not in _CHECKS:
        raise ValueError(f'verify={verify!r}: it is "structure", "full" (True) or "none" (False)')
    if group is None or group is False:
        return _newest(directory, how)
    return _newest_of_all(directory, how, group)


def _newest_of_all(directory: Path, how: str, group: Any) -> str | None:
    from torch import distributed

    if not distributed.is_initialized():
        raise ValueError("latest(group=...) needs torch.distributed.init_process_group before it")
    group = None if group is True else group
    root = 0 if group is None else distributed.get_global_rank(group, 0)
    answer: list[tuple[str | None, int, str]] = [(None, 0, "")]
    failure: Exception | None = None
    if distributed.get_rank() == root:
        try:
            answer = [(_newest(directory, how), 0, "")]
        except Exception as error:
            failure = error  # the others must not wait for what does not come
            answer = [(None, getattr(error, "errno", None) or errno.EIO, str(error))]
    distributed.broadcast_object_list(answer, src=root, group=group)
    if failure:
        raise failure
    found, number, text = answer[0]
    if number:
        raise CheckpointError(number, text)
    return found


def _newest(directory: Path, how: str) -> str | None:
    mounts.check_required(directory)
    if mounts.is_dead(directory):
        raise mounts.gone(directory)
    try:
        os.scandir(directory).close()
    except FileNotFoundError as error:
        raise CheckpointError(
            errno.ENOENT,
            (
                f"{os.fspath(directory)}: there is no such directory. "
                "Make it, or look whether the path is right"
            ),
        ) from error
    except NotADirectoryError as error:
        raise CheckpointError(
            errno.ENOTDIR,
            (
                f"{os.fspath(directory)} is a file; "
                "latest wants the directory that the checkpoints are in"
            ),
        ) from error
    except OSError as error:
        raise CheckpointError(
            error.errno or errno.EIO,
            f"{os.fspath(directory)} cannot be looked at: {error.strerror}",
        ) from error
    try:
        library = _lib.library()
    except LibraryNotFound as error:
        if how == "full":
            raise
        _lib.without_library("latest looks at names, sizes and times only", error)
        return _newest_by_names(directory, how)
    buffer = ctypes.create_string_buffer(PATH_MAX)
    with mounts.served(directory):
        result = library.ckptfs_latest(os.fsencode(directory), _CHECKS[how], buffer, len(buffer))
        if result == -errno.ENOENT:
            return None
        _lib.check(result)
    note = _lib.told()
    if note:
        log.warning("%s", note)
    return os.fsdecode(buffer.value)


# --- the same without the library, as far as that can be known ---


def _newest_by_names(directory: Path, how: str) -> str | None:
    """Commit files and records are believed as they are; digests need the library."""
    committed: list[tuple[int, str]] = []
    foreign: list[tuple[int, str]] = []
    for top, names, files in os.walk(os.fspath(directory)):
        names[:] = [name for name in names if not name.startswith(".ckptfs")]
        when = _committed_ns(top, how)
        if when is not None:
            committed += [(when, top)] if when else []
            names[:] = []
            continue
        for name in files:
            _add_file(os.path.join(top, name), name, committed, foreign)
    if not committed and foreign:
        log.warning(
            "%s was not written by ckptfs, and nothing vouches for its content: "
            "there is no committed checkpoint at or below %s",
            max(foreign)[1],
            os.fspath(directory),
        )
    return max(committed or foreign, default=(0, None))[1]


def _committed_ns(directory: str, how: str) -> int | None:
    """When the checkpoint directory was committed; 0: it is not whole, nor are its files what they
    seem; None: it was not."""
    try:
        with open(os.path.join(directory, _COMMIT_FILE), encoding="utf-8") as file:
            told = json.load(file)  # a cut one is no JSON
        for entry in told["files"] if how == "structure" else ():
            name = (
                bytes.fromhex(entry["path_hex"])
                if "path_hex" in entry
                else os.fsencode(entry["path"])
            )
            there = os.lstat(os.path.join(os.fsencode(directory), name))
            if "size" in entry and there.st_size != entry["size"]:
                raise ValueError(
                    f"{os.fsdecode(name)} has {there.st_size} bytes and had {entry['size']}"
                )
        return int(told["committed_ns"])
    except FileNotFoundError as error:
        if error.filename == os.path.join(directory, _COMMIT_FILE):
            return None
        log.warning("%s is skipped: %s", directory, error)
    except (OSError, ValueError, KeyError, TypeError) as error:
        if not isinstance(error, NotADirectoryError):
            log.warning("%s is skipped: %s", directory, error)
    return 0


def _add_file(
    path: str, name: str, committed: list[tuple[int, str]], foreign: list[tuple[int, str]]
) -> None:
    """Adds the file to one of these, unless it is no checkpoint, is being saved, or was changed
    since."""
    try:
        there = os.lstat(path)
    except OSError:  # it was removed meanwhile
        return
    if not stat.S_ISREG(there.st_mode) or name.startswith(".ckptfs") or name in _POINTERS:
        return
    state = _attribute(path, _STATE)  # b"": it lies in no mount
    record = _attribute(path, _DIGEST)
    if state not in (b"", b"committed", b"foreign"):
        return
    if _digest_record(record) == (there.st_size, there.st_mtime_ns):
        committed.append((there.st_mtime_ns, path))
    elif not record and (
        state == b"foreign" or any(fnmatch.fnmatchcase(name, pattern) for pattern in _FOREIGN)
    ):
        foreign.append((there.st_mtime_ns, path))


def _digest_record(text: bytes) -> tuple[int, int] | None:
    """The size and the time of change in the text of an attribute, as digest_record_parse of
    engine/format/digest_record.c; None: it is no record."""
    found = _RECORD.fullmatch(text)
    if not found or max(int(found[1]), int(found[2])) >= 1 << 64:
        return None
    return int(found[1]), int(found[2])


def _attribute(path: str, name: str) -> bytes:
    try:
        return os.getxattr(path, name)
    except OSError:
        return b""
