# SPDX-License-Identifier: MIT
"""The rows on saves of checkpoint files: what the cache, the flush and the publishing cost."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Callable

from processes import (
    Failed,
    NotMeasured,
    command,
    cpu_seconds,
    daemon_pid,
    is_published,
    wait_until,
)
from rows import rate
from setting import FSLOAD, GIB, MIB, SAVE_BLOCK, SMALL_CACHE, Bench


def large_cache(bench: Bench, writers: int = 1) -> int:
    """As much as is written, and room for what another part of the machine holds up."""
    return bench.save_bytes * writers + bench.save_bytes // 4 + SMALL_CACHE


def sample_save(writers: int = 1) -> Callable[[Bench, str], dict]:
    """From before the first create up to the last close."""

    def sample(bench: Bench, side: str) -> dict:
        number = 1 if side == "one writer" else writers
        where = "ckptfs" if side == "one writer" else side
        with bench.side(where, large_cache(bench, writers)) as path:
            bench.warm_up(where, path, number)
            seconds, count, _ = bench.save(path, number)
            bench.clear_saves(where, path)
        return rate((seconds, count), MIB)

    return sample


def fio_writes(bench: Bench) -> dict:
    """The same bytes past all mounts, as fast as fio gets them on the disk."""
    path = bench.path("backing/fio.dat")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    try:
        text = command(
            [
                "fio",
                "--name=flush",
                f"--filename={path}",
                "--rw=write",
                "--bs=1M",
                f"--size={bench.save_bytes}",
                "--ioengine=io_uring",
                "--direct=1",
                "--iodepth=32",
                "--end_fsync=1",
                "--output-format=json",
            ]
        )
    except Failed as error:
        raise NotMeasured(f"fio cannot: {error}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        bench.settle()
    job = json.loads(text[text.index("{") :])["jobs"][0]
    return rate((job["write"]["runtime"] / 1000, job["write"]["io_bytes"]), MIB)


def sample_flush(bench: Bench, side: str) -> dict:
    """From the first write until the file has its name on the backing; and the CPU it took."""
    if side == "fio":
        return fio_writes(bench)
    # No warm-up: where a filesystem discards what was removed, that would keep the storage busy
    # now.
    with bench.side(side, large_cache(bench)) as path:
        pid = daemon_pid(path)
        before = cpu_seconds(pid)
        _, count, start = bench.save(path)
        wait_until("it is published", lambda: is_published(bench.path("backing/x0.pt")), 0.001)
        seconds = time.monotonic() - start
        bench.quiesce(side)
        cpu = cpu_seconds(pid) - before
        bench.clear_saves(side, path)
    return {**rate((seconds, count), MIB), "cpu": cpu / (count / GIB)}


def sample_cpu(bench: Bench, side: str) -> dict:
    sample = sample_flush(bench, side)
    return {"value": sample["cpu"]}


def dd_writes(bench: Bench) -> dict:
    path = bench.path("backing/dd.dat")
    try:
        text = command(
            [
                "dd",
                "if=/dev/zero",
                f"of={path}",
                f"bs={SAVE_BLOCK}",
                "iflag=fullblock",
                f"count={bench.save_bytes // SAVE_BLOCK}",
                "oflag=direct",
                "conv=fsync",
            ],
            env=dict(os.environ, LC_ALL="C"),
        )
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        bench.settle()
    match = re.search(r"^(\d+) bytes .*copied, ([0-9.e+-]+) s", text, re.M)
    if not match:
        raise Failed(f"cannot read what dd said: {text.strip()}")
    return rate((float(match.group(2)), int(match.group(1))), MIB)


def sample_durable(bench: Bench, side: str) -> dict:
    """A file four times the cache: from before its create to after fsync and close."""
    if side == "dd":
        return dd_writes(bench)
    with bench.side(side, bench.save_bytes // 4) as path:
        words = ["save-durable", path, str(bench.save_bytes), str(SAVE_BLOCK)]
        seconds, count, _ = command([FSLOAD, *words]).split()
        if not is_published(bench.path("backing/x0.pt")):
            raise Failed("fsync and close have returned, and x0.pt is not on the backing")
        bench.clear_saves(side, path)
    return rate((float(seconds), int(count)), MIB)


def sample_reread(bench: Bench, side: str) -> dict:
    """Read once by another program, right after the close; or once it is published."""
    where = "backing" if side == "backing" else "ckptfs"
    with bench.side(where, large_cache(bench)) as path:
        bench.warm_up(where, path)
        bench.save(path)
        if side == "ckptfs, published":
            bench.quiesce(where)
        load = bench.load("read-once", os.path.join(path, "x0.pt"), SAVE_BLOCK)
        if load[1] != bench.save_bytes:
            raise Failed(f"x0.pt has {load[1]} bytes, {bench.save_bytes} were written")
        bench.clear_saves(where, path)
    return rate(load, MIB)
