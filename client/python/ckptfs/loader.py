# SPDX-License-Identifier: MIT
"""The samples that the workers of a dataloader have read and not handed out, kept so that another
number of ranks and workers can go on with them, each sample once (ByteCheckpoint, 3.3).

    ckptfs.loader.save(step_dir, buffers, shared=state)     before the checkpoint is saved
    buffers, shared = ckptfs.loader.load(step_dir, workers=4)

A buffer is a list of samples, one for each worker of this rank. `shared` is what all ranks have
alike: the state of the dataset, sampler or shuffle. Needs neither torch nor a mount.

In the directory `loader` of the checkpoint each worker has a file "RANK.WORKER.samples": 8 bytes
b"CKPTFSL1", the number of ranks, of workers of this rank and of samples, the length of each sample,
and the samples. Numbers have 8 bytes, little-endian. Rank 0 has the file "shared", which is the
same with one sample. A save into the same directory replaces the files of its rank."""

from __future__ import annotations

import errno
import os
import pickle
import re
import struct
from typing import Any, Callable, Sequence

from . import mounts
from ._lib import CheckpointError
from .ranks import rank_and_world

MAGIC = b"CKPTFSL1"
HEAD = struct.Struct("<8sQQQ")
NAME = re.compile(r"(\d+)\.(\d+)\.samples")
FOLDER, SHARED = "loader", "shared"

Dumps = Callable[[Any], bytes]
Loads = Callable[[bytes], Any]


def _put(path: str, world: int, workers: int, samples: Sequence[bytes]) -> None:
    with open(path, "wb") as file:
        file.write(HEAD.pack(MAGIC, world, workers, len(samples)))
        file.write(struct.pack(f"<{len(samples)}Q", *map(len, samples)))
        for sample in samples:
            file.write(sample)


def save(
    path: Any,
    buffers: Sequence[Sequence[Any]],
    *,
    shared: Any = None,
    rank: int | None = None,
    world: int | None = None,
    dumps: Dumps = pickle.dumps,
) -> None:
    """Writes the buffers of the workers of this rank, at least one, into the checkpoint directory
    @path, which is made if it is not there. Every rank calls it, before what completes the
    checkpoint is written.

    rank, world: default those of torch.distributed, or of the launcher. dumps: makes bytes of a
    sample, and of `shared`."""
    rank, world = rank_and_world(rank, world)
    if not len(buffers):
        raise ValueError("give a list for each worker, an empty one too")
    folder = os.path.join(os.fspath(path), FOLDER)
    with mounts.served(path):
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            match = NAME.fullmatch(name)
            # Of an earlier save, by more ranks or workers.
            if match and (
                (int(match.group(1)) == rank and int(match.group(2)) >= len(buffers))
                or (rank == 0 and int(match.group(1)) >= world)
            ):
                os.remove(f"{folder}/{name}")
        for worker, buffer in enumerate(buffers):
            samples = [bytes(dumps(sample)) for sample in buffer]
            _put(f"{folder}/{rank:05}.{worker:03}.samples", world, len(buffers), samples)
        if rank == 0:
            _put(f"{folder}/{SHARED}", world, len(buffers), [bytes(dumps(shared))])


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
    found = []
    for name in os.listdir(folder):
        match = NAME.fullmatch(name)
        if match:
            found.append(_Stored(f"{folder}/{name}", int(match.group(1)), int(match.group(2))))
    found.sort(key=lambda file: (file.rank, file.worker))
    worlds = {file.world for file in found}
    if len(worlds) != 1:
        why = "files of saves by other numbers of ranks" if worlds else "no file of samples"
        raise CheckpointError(errno.EBADMSG if worlds else errno.ENOENT, f"{folder} has {why}")
    ranks: dict[int, list[_Stored]] = {}
    for file in found:
        ranks.setdefault(file.rank, []).append(file)
    world = worlds.pop()
    for rank in sorted(ranks):
        files = ranks[rank]
        if {file.workers for file in files} != {len(files)} or files[-1].worker != len(files) - 1:
            raise CheckpointError(
                errno.EBADMSG, f"{folder} lacks files of rank {rank}, or has too many"
            )
    if len(ranks) != world or max(ranks) != world - 1:
        missing = next((n for n in range(len(ranks) + 1) if n not in ranks), world)
        what = f"no file of rank {missing}" if len(ranks) < world else "files of too many ranks"
        raise CheckpointError(errno.EBADMSG, f"{folder} has {what}: {world} ranks have saved")
    return found


def _in_order(files: list[_Stored]) -> list[tuple[_Stored, int]]:
    """All samples, as they would have been handed out: each rank takes from its workers in turn,
    the first one next, and all ranks take at once."""
    found = [
        (number * file.workers + file.worker, file.rank, file, number)
        for file in files
        for number in range(len(file.lengths))
    ]
    found.sort(key=lambda one: one[:2])
    return [(file, number) for _, _, file, number in found]


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


def _decoded(loads: Loads, data: bytes, path: str) -> Any:
    try:
        return loads(data)
    except Exception as error:
        raise CheckpointError(
            errno.EBADMSG, f"{path}: a sample cannot be decoded: {error!r}"
        ) from error


def load(
    path: Any,
    *,
    workers: int,
    rank: int | None = None,
    world: int | None = None,
    loads: Loads = pickle.loads,
) -> tuple[list[list[Any]], Any]:
    """The buffers of the workers of this rank, and what was `shared`. @workers is the same on all
    ranks. If all ranks had as many workers, and there are as many ranks as at the save, each gets
    its own. Else all samples are dealt anew, in the order in which they would have been handed out:
    each one once, and as many to each worker, but for one.

    rank, world: as in save. loads: what undoes `dumps`; the default runs what a pickle says, so the
    checkpoint must be one that you trust. Only the samples of this rank are read.
    CheckpointError: a file is missing or damaged."""
    rank, world = rank_and_world(rank, world)
    if workers < 1:
        raise ValueError(f"there are {workers} workers")
    folder = os.path.join(os.fspath(path), FOLDER)
    with mounts.served(path):
        try:
            mine = _dealt(_files(folder), rank, world, workers)
            common = _Stored(f"{folder}/{SHARED}", 0, 0)
        except FileNotFoundError as error:
            raise CheckpointError(errno.ENOENT, f"{error.filename} is not there") from error
        wanted: dict[_Stored, list[int]] = {}
        for buffer in mine:
            for file, number in buffer:
                wanted.setdefault(file, []).append(number)
        read = {file: file.read(sorted(numbers)) for file, numbers in wanted.items()}
        state = _decoded(loads, common.read([0])[0], common.path)
    found = [
        [_decoded(loads, read[file][number], file.path) for file, number in buffer]
        for buffer in mine
    ]
    return found, state
