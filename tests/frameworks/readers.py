#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 1800
"""Evaluation jobs load what they see, in every way, while a training job saves, rotates and saves
over the same name: on its mount, on a second mount of the backing, and on the bare backing. What
they get is, bit by bit, what was saved."""

from harness import enter

enter("torch", "safetensors", "numpy")
import collections
import concurrent.futures
import contextlib
import os
import re
import shutil
import time
import traceback

import numpy
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch.distributed.checkpoint.api import CheckpointException  # no Exception

from dcp import Dcp
from harness.environment import need_fuse
from harness.jobs import Job
from harness.mount import Mount, wait
from safetensors_save import Safetensors
from torch_save import TorchSave

CONFIG = {"host_cache_size": "128M", "flush_bw": "60M", "quiet_s": 1, "commit_timeout_s": 10}
JOB_STEPS, EVERY = 24, 2
SCALE = 3  # 11 MB of state: saving and flushing it take a while
JOBS = 20  # at most, until there were loads enough
SECONDS = 300
# Of a checkpoint that is removed by the time that it is opened: the latter from a directory that is
# held open, as on NFS.
_GONE = ("No such file or directory", "Stale file handle")


# --- how a file is read: from its beginning to its end, or wherever it is ---


def read(file):
    return file.read()


def pread(file):
    """Many threads, each of them pieces that lie apart."""
    piece, size = 100000, os.fstat(file.fileno()).st_size
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        return b"".join(
            threads.map(lambda at: os.pread(file.fileno(), piece, at), range(0, size, piece))
        )


def memmap(file):
    return numpy.memmap(file, mode="r")


BYTES = {"read": read, "pread by 16 threads": pread, "numpy.memmap": memmap}
HELD = ", held"  # until the checkpoint was removed or replaced, and read only then
# what has been mapped, they read later
LAZY = ("numpy.memmap", "torch.load, mmap", "load_file", "safe_open")


def copied(contents):
    """{name: bytes} as a checkpoint elsewhere."""
    copy = f"{os.environ['TEST_TMP']}/copy.{os.getpid()}"
    shutil.rmtree(copy, ignore_errors=True)
    for name, content in contents.items():
        os.makedirs(os.path.dirname(copy + name), exist_ok=True)
        with open(copy + name, "wb") as file:
            file.write(content)
    return copy


# --- what is trained and saved, and how it is loaded besides ---


def torch_load(path):
    return torch.load(path, weights_only=True)


def torch_mmap(path):
    return torch.load(path, weights_only=True, mmap=True)


def safetensors_open(path):
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


class Torch(TorchSave):
    own = {"torch.load": torch_load, "torch.load, mmap": torch_mmap}


class Tensors(Safetensors):
    own = {"load_file": load_file, "safe_open": safetensors_open}


class Over:
    """Saved under one name, again and again."""

    def found(self, directory):
        path = directory + "/last" + self.suffix
        return {1: path} if os.path.exists(path) else {}

    def write(self, state, path):
        super().write(state, os.path.dirname(path) + "/last" + self.suffix)


class TorchOver(Over, Torch):
    pass


class TensorsOver(Over, Tensors):
    pass


class DcpUnits(Dcp):
    def __init__(self):
        self.own = {"DCP": self.load}


# --- who loads it ---


def names(path):
    """What is to be added to it for each of its files."""
    if not os.path.isdir(path):
        return [""]
    return [
        os.path.join(top, name)[len(path) :] for top, _, files in os.walk(path) for name in files
    ]


def state_of(file):
    """A name or descriptor; None: neither a checkpoint's, or no longer there."""
    with contextlib.suppress(OSError):
        return os.getxattr(file, "user.ckptfs.state").decode()
    return None


def replaced(path, file):
    with contextlib.suppress(FileNotFoundError):
        return not os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    return True


class Evaluation:
    """A job of several processes, two in each place, which load in all ways, one after the other,
    until training ends."""

    def __init__(self, trained, places, over):
        self.trained, self.places, self.over = trained, places, over
        self.world = 2 * len(places)
        once = [*BYTES, *trained.own]
        self.ways = once + [way + HELD for way in once if way in LAZY]

    def train(self, run):
        torch.set_num_threads(1)
        place, turn = list(self.places)[run.rank % len(self.places)], run.rank
        over = False
        while not over:
            over = os.path.exists(self.over)
            for way in self.ways:
                paths = sorted(self.trained.found(self.places[place]).values())
                turn += 1
                if paths:
                    self.look(run, place, paths[turn % len(paths)], way)

    def look(self, run, place, path, way):
        told = {"place": place, "path": path, "since": time.monotonic()}
        try:
            with contextlib.ExitStack() as stack:
                one = os.open(path, os.O_RDONLY)
                stack.callback(os.close, one)
                # The backing has only what is whole.
                before = state_of(one)
                if place != "backing" and before not in ("sealed", "durable", "committed"):
                    return
                # The name may be another's by now.
                within = f"/proc/self/fd/{one}"
                files = {
                    name: stack.enter_context(open(within + name, "rb")) for name in names(within)
                }
                state = self.load(path, within, files, way, told)
                told["committing"] = (
                    before in ("sealed", "durable") and state_of(one) == "committed"
                )
            run.tell(way, int(state["step"]), state, **told)
        except (Exception, CheckpointException):
            run.tell(way, None, failed=traceback.format_exc(), **told)

    def load(self, path, within, files, way, told):
        how = way.removesuffix(HELD)
        if how in BYTES:
            got = {name: BYTES[how](file) for name, file in files.items()}
        else:  # they open a name more than once
            got = self.trained.own[how](within if isinstance(self.trained, Over) else path)
        if way != how:
            name, file = next(iter(files.items()))
            wait(lambda: replaced(path + name, file) or os.path.exists(self.over), SECONDS)
            told["replaced"] = replaced(path + name, file)
        return self.trained.load(copied(got)) if how in BYTES else got


# --- what is right ---


class Readers:
    """Of one kind of checkpoint."""

    def __init__(self, mounts, trained):
        self.mounts, self.trained = mounts, trained
        tops = {"mount": mounts[0].mnt, "other mount": mounts[1].mnt, "backing": mounts[0].back}
        self.places = {place: f"{top}/{type(trained).__name__}" for place, top in tops.items()}
        self.over = f"{os.environ['TEST_TMP']}/over.{type(trained).__name__}"
        self.right = {}  # step -> digest
        self.saves = []  # {"step", "since", "at"}

    def evaluation(self):
        return Job(Evaluation(self.trained, self.places, self.over), "", steps=0, every=1)

    def train(self, steps, evaluation):
        job = Job(self.trained, self.places["mount"], steps=steps, every=EVERY, scale=SCALE)
        end = time.monotonic() + SECONDS
        while job.listen(1) is not None:
            evaluation.listen(0)
            assert time.monotonic() < end, "the job hangs\n" + job.logs()
        assert not any(job.finish(SECONDS)), job.logs()
        for rank, report in job.told:
            if "digest" in report:
                assert (
                    self.right.setdefault(report["step"], report["digest"]) == report["digest"]
                ), ("ranks differ", report)
            if rank == 0 and report["what"] == "saving":
                self.saves.append(dict(report, since=report["at"]))
            elif rank == 0 and report["what"] == "saved":
                self.saves[-1]["at"] = report["at"]

    def check(self, evaluation):
        """Every load, and how many there were: {(place, way): Counter}."""
        counts = collections.defaultdict(collections.Counter)
        for _, load in evaluation.told:
            named = re.search(r"/step-(\d+)", load["path"])
            if "failed" in load:
                assert any(why in load["failed"] for why in _GONE), load["failed"]
                assert named and self.rotated(int(named.group(1)), load["at"]), (
                    "nobody had removed it",
                    load,
                )
            else:
                assert load["digest"] == self.right[load["step"]], ("not what was saved", load)
                assert not named or int(named.group(1)) == load["step"], ("another's", load)
            count = counts[load["place"], load["what"]]
            count["failed" if "failed" in load else "loads"] += 1
            count["replaced"] += load.get("replaced", 0)
            count["committing"] += load.get("committing", 0)
            count["beside a save"] += "failed" not in load and any(
                save["since"] < load["at"] and load["since"] < save["at"] for save in self.saves
            )
        return counts

    def rotated(self, step, at):
        """Might the training job have begun to remove it by then?"""
        return any(
            save["step"] >= step + self.trained.keep * EVERY and save["since"] < at
            for save in self.saves
        )

    def lacking(self, counts):
        """What there was not enough of, to say anything."""
        least = {"loads": 5, "beside a save": 2}
        few = [
            (place, way, what)
            for place in self.places
            for way in Evaluation(self.trained, self.places, "").ways
            for what in least
            if counts[place, way][what] < least[what]
        ]
        few += [
            (*key, "replaced")
            for key, count in counts.items()
            if key[1].endswith(HELD) and not count["replaced"]
        ]
        return few + ["committing"] * (not any(count["committing"] for count in counts.values()))

    def warm(self):
        """Jobs train, each from where the last one ended, until there were loads enough."""
        os.makedirs(self.places["mount"])
        evaluation = self.evaluation()
        for jobs in range(1, JOBS + 1):
            self.train(jobs * JOB_STEPS, evaluation)
            if not self.lacking(self.check(evaluation)):
                break
        self.end(evaluation)
        counts = self.check(evaluation)
        assert not self.lacking(counts), self.lacking(counts)
        print(f"{type(self.trained).__name__}: {len(self.saves)} saves")
        for (place, how), count in sorted(counts.items()):
            print(f"    {place:<12} {how:<24}", dict(count), flush=True)

    def end(self, evaluation):
        with open(self.over, "w", encoding="utf-8"):
            pass
        assert not any(evaluation.finish(SECONDS)), evaluation.logs()

    def cold(self):
        evaluation = self.evaluation()
        self.end(evaluation)
        counts = self.check(evaluation)
        wanted = [
            (place, way)
            for place in self.places
            for way in Evaluation(self.trained, self.places, "").ways
        ]
        assert all(counts[key]["loads"] and not counts[key]["failed"] for key in wanted), counts


def evict(directory):
    """From the kernel's page cache."""
    for top, _, files in os.walk(directory):
        for name in files:
            with open(os.path.join(top, name), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main():
    need_fuse()
    mounts = [Mount(CONFIG), Mount(CONFIG, mnt="other")]
    readers = [
        Readers(mounts, trained)
        for trained in (Torch(), TorchOver(), Tensors(), TensorsOver(), DcpUnits())
    ]
    for reader in readers:
        reader.warm()
    for mount in mounts:
        mount.settled()
        assert not mount.failures(), mount.failures()
        mount.umount()
    evict(mounts[0].back)
    for mount in mounts:
        mount.start()
    for reader in readers:
        reader.cold()
    for mount in mounts:
        mount.umount()


main()
