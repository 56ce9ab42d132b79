# SPDX-License-Identifier: MIT
"""The samples that the workers of a dataloader have read and not handed out, kept so that another
number of ranks and workers can go on with them, each sample once (ByteCheckpoint, 3.3).

    ckptfs.loader.save(step_dir, buffers, shared=state)     before the checkpoint is saved
    buffers, shared = ckptfs.loader.load(step_dir, workers=4)

A buffer is a list of samples, one for each worker of this rank. `shared` is what all ranks have
alike: the state of the dataset, sampler or shuffle. Needs neither torch nor a mount.

In the directory `loader` of the checkpoint each worker has a file "RANK.WORKER.samples": 8 bytes
b"CKPTFSL1", the number of ranks, of workers of this rank and of samples, the length of each sample,
and the samples. Numbers have 8 bytes, little-endian. Rank 0 has the file "shared"."""

from __future__ import annotations

import errno
import os
import pickle
import re
import struct
from typing import Any, Callable, Iterator, Sequence

from ._lib import CheckpointError

MAGIC = b"CKPTFSL1"
HEAD = struct.Struct("<8sQQQ")
NAME = re.compile(r"(\d+)\.(\d+)\.samples")
FOLDER, SHARED = "loader", "shared"

Dumps = Callable[[Any], bytes]
Loads = Callable[[bytes], Any]


def _rank_and_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """As given, or as torch.distributed or the launcher says."""
    if rank is None or world is None:
        import sys

        torch = sys.modules.get("torch")
        if (
            torch is not None
            and torch.distributed.is_available()
            and torch.distributed.is_initialized()
        ):
            found = torch.distributed.get_rank(), torch.distributed.get_world_size()
        else:
            found = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        rank, world = found[0] if rank is None else rank, found[1] if world is None else world
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} is not one of {world}")
    return rank, world


def _put(path: str, parts: Sequence[bytes]) -> None:
    with open(path, "wb") as file:
        for part in parts:
            file.write(part)


def save(
    path: Any,
    buffers: Sequence[Sequence[Any]],
    *,
    shared: Any = None,
    rank: int | None = None,
    world: int | None = None,
    dumps: Dumps = pickle.dumps,
) -> None:
    """Writes the buffers of the workers of this rank into the checkpoint directory @path, which is
    made if it is not there. Every rank calls it, before what completes the checkpoint is written.

    rank, world: default those of torch.distributed, or $RANK and $WORLD_SIZE. dumps: makes bytes of
    a sample, and of `shared`."""
    rank, world = _rank_and_world(rank, world)
    folder = os.path.join(os.fspath(path), FOLDER)
    os.makedirs(folder, exist_ok=True)
    for worker, buffer in enumerate(buffers):
        samples = [dumps(sample) for sample in buffer]
        head = HEAD.pack(MAGIC, world, len(buffers), len(samples))
        lengths = struct.pack(f"<{len(samples)}Q", *map(len, samples))
        _put(f"{folder}/{rank:05}.{worker:03}.samples", [head, lengths, *samples])
    if rank == 0:
        _put(f"{folder}/{SHARED}", [dumps(shared)])


class _Stored:
    """The file of a worker."""

    def __init__(self, path: str, rank: int, worker: int) -> None:
        self.path, self.rank, self.worker = path, rank, worker
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(HEAD.size)
            if len(head) < HEAD.size or head[:8] != MAGIC:
                raise self._damaged("it does not begin as such a file does")
            _, self.world, self.workers, nr = HEAD.unpack(head)
            if nr > (size - HEAD.size) // 8:
                raise self._damaged("it is cut off")
            self.lengths = struct.unpack(f"<{nr}Q", file.read(8 * nr))
        self.at = [HEAD.size + 8 * nr]
        for length in self.lengths:
            self.at.append(self.at[-1] + length)
        if self.at[-1] != size:
            raise self._damaged(f"it has {size} bytes, and {self.at[-1]} are said")

    def _damaged(self, why: str) -> CheckpointError:
        return CheckpointError(errno.EBADMSG, f"{self.path}: {why}")

    def read(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """These samples."""
        found = {}
        with open(self.path, "rb") as file:
            for number in numbers:
                file.seek(self.at[number])
                found[number] = file.read(self.lengths[number])
                if len(found[number]) != self.lengths[number]:
                    raise self._damaged("it was cut off meanwhile")
        return found


def _files(folder: str) -> list[_Stored]:
    """All of them. CheckpointError: one is missing, or they are of two saves."""
    found = {}
    for name in os.listdir(folder):
        match = NAME.fullmatch(name)
        if match:
            rank, worker = int(match.group(1)), int(match.group(2))
            found[rank, worker] = _Stored(f"{folder}/{name}", rank, worker)
    worlds = {file.world for file in found.values()}
    if len(worlds) != 1:
        why = "files of saves by other numbers of ranks" if worlds else "no file of samples"
        raise CheckpointError(errno.EBADMSG if worlds else errno.ENOENT, f"{folder} has {why}")
    for rank in range(worlds.pop()):
        first = found.get((rank, 0))
        wanted = set(range(first.workers)) if first else {0}
        if {worker for r, worker in found if r == rank} != wanted:
            raise CheckpointError(
                errno.EBADMSG, f"{folder} lacks files of rank {rank}, or has too many"
            )
    return [found[key] for key in sorted(found)]


def _in_order(files: list[_Stored]) -> Iterator[tuple[_Stored, int]]:
    """All samples, as they would have been handed out: each rank takes from its workers in turn,
    and all ranks take at once."""
    longest = max(len(file.lengths) for file in files)
    by_turn = sorted(files, key=lambda file: (file.worker, file.rank))
    for number in range(longest):
        for file in by_turn:
            if number < len(file.lengths):
                yield file, number


def _dealt(files: list[_Stored], rank: int, world: int, workers: int) -> list[list[Any]]:
    """What each worker of this rank gets: (file, number) of its samples."""
    mine: list[list[Any]] = [[] for _ in range(workers)]
    same = all(file.world == world and file.workers == workers for file in files)
    for place, (file, number) in enumerate(_in_order(files)):
        if same:
            to_rank, to_worker = file.rank, file.worker
        else:
            to_rank, to_worker = place % world, place // world % workers
        if to_rank == rank:
            mine[to_worker].append((file, number))
    return mine


def load(
    path: Any,
    *,
    workers: int,
    rank: int | None = None,
    world: int | None = None,
    loads: Loads = pickle.loads,
) -> tuple[list[list[Any]], Any]:
    """The buffers of the workers of this rank, and what was `shared`. With as many ranks and
    workers as at the save each gets its own. With others all samples are dealt anew, in the order
    in which they would have been handed out: each one once, and as many to each worker, but for
    one.

    rank, world: as in save. loads: what undoes `dumps`; the default runs what a pickle says, so the
    checkpoint must be one that you trust. Only the samples of this rank are read.
    CheckpointError: a file is missing or damaged."""
    rank, world = _rank_and_world(rank, world)
    if workers < 1:
        raise ValueError(f"there are {workers} workers")
    folder = os.path.join(os.fspath(path), FOLDER)
    mine = _dealt(_files(folder), rank, world, workers)
    wanted: dict[_Stored, list[int]] = {}
    for buffer in mine:
        for file, number in buffer:
            wanted.setdefault(file, []).append(number)
    read = {file: file.read(sorted(numbers)) for file, numbers in wanted.items()}
    with open(f"{folder}/{SHARED}", "rb") as shared:
        state = loads(shared.read())
    return [[loads(read[file][number]) for file, number in buffer] for buffer in mine], state
