# SPDX-License-Identifier: MIT
"""The rows on checkpoints of several nodes: what agreeing costs."""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator

from processes import (
    BUILD,
    CKPTFS,
    SRC,
    Failed,
    NotMeasured,
    command,
    cpu_seconds,
    is_ready,
    memory_mib,
    started,
    wait_until,
)
from rows import Row
from setting import Bench
from units import load, peak_mib, verify_mib

sys.path.insert(0, os.path.join(SRC, "tests/helpers"))
from ports import free_ports

SIMULATION = os.path.join(BUILD, "tests/unit/agreement_load.t")
FANOUT = 16  # the daemon's
NODES = 8
COMMITS, SYNCS, PUTS = 5, 50, 200  # of which the median counts
CROWD = os.path.join(BUILD, "tests/crowd/crowd")
CROWD_FILES = 10  # of each node


# --- simulated ---


def simulated(nodes: int, fanout: int, *how: str) -> dict:
    """What the busiest of so many nodes does for one commit."""
    words = command([SIMULATION, str(nodes), str(fanout), *how]).split()
    return dict(zip(("depth", "made", "records", "mean", "bytes"), map(float, words[3:])))


def sample_records(bench: Bench, side: str) -> dict:
    if not os.access(SIMULATION, os.X_OK):
        raise NotMeasured("make tests first")
    nodes = (1000 if bench.args.quick else 10000) if side == "ckptfs" else int(side.split()[0])
    worst, barrier = simulated(nodes, FANOUT), simulated(nodes, FANOUT, "barrier")
    return {
        "value": worst["records"],
        "a node": worst["mean"],
        "KiB": worst["bytes"] / 1024,
        "depth": worst["depth"],
        "all at once": barrier["records"],
        "KiB so": barrier["bytes"] / 1024,
        "fan-out 2": simulated(nodes, 2)["records"],
        "fan-out 4": simulated(nodes, 4)["records"],
    }


# --- daemons ---


def library(bench: Bench):
    """tests/cluster/nodes.py, in a directory of its own."""
    os.environ.update(TEST_TMP=bench.path("cluster"), CKPTFS=CKPTFS, BUILD=BUILD)
    os.makedirs(bench.path("cluster/back"), exist_ok=True)
    sys.path.insert(0, os.path.join(SRC, "tests/cluster"))
    return tuple(importlib.import_module(name) for name in ("nodes", "etcd", "crowd"))


@contextlib.contextmanager
def running_etcd(bench: Bench, etcd) -> Iterator[str]:
    """One member, on the bench's own disk."""
    if not shutil.which("etcd"):
        raise NotMeasured("install etcd-server")
    urls = [f"http://127.0.0.1:{port}" for port in free_ports(2)]
    argv = [
        "etcd",
        "--data-dir",
        bench.path("etcd"),
        "--listen-client-urls",
        urls[0],
        "--advertise-client-urls",
        urls[0],
        "--listen-peer-urls",
        urls[1],
        "--initial-advertise-peer-urls",
        urls[1],
        "--initial-cluster",
        f"default={urls[1]}",
    ]

    def answers() -> bool:
        try:
            etcd.healthy(urls[0])
            return True
        except OSError:
            return False

    with started(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until("etcd answers", answers)
        yield urls[0]
        process.kill()
    shutil.rmtree(bench.path("etcd"))


def is_durable(node, name: str) -> bool:
    return any(
        entry["path"] == name and not entry.get("dirty_bytes")
        for entry in node.status().get("pending", [])
    )


def committed_at(node, name: str) -> float | None:
    """By CLOCK_MONOTONIC."""
    with open(node.path(".ckptfs/trace.json"), encoding="utf-8") as file:
        ends = [
            event["ts"] + event["dur"]
            for event in json.load(file)["traceEvents"]
            if event["name"] == "commit"
            and event["args"]["path"] == name
            and event["args"]["state"] == "committed"
        ]
    return ends[-1] / 1e6 if ends else None


def commit_seconds(nodes, mounts: list, ranks: list, name: str) -> float:
    """From the end of a checkpoint that is durable on all nodes but for that, until it is
    committed."""
    nodes.save(ranks, name, end=False)
    for mount in mounts:
        wait_until("its files are durable", lambda mount=mount: is_durable(mount, name))
    ended = ranks[0].do(
        f"import time; open('{name}/.metadata.tmp', 'wb').write(b'x'); "
        f"os.rename('{name}/.metadata.tmp', '{name}/.metadata'); result = time.monotonic()"
    )
    for mount in mounts:
        mount.wait_for(name)
    at = committed_at(mounts[0], name)
    if at is None:
        raise Failed(f"{name} is not committed")
    return at - ended


def sample_nodes(with_etcd: bool):
    def sample(bench: Bench, side: str) -> dict:
        nodes, etcd, _ = library(bench)
        with contextlib.ExitStack() as stack:
            options = ""
            if with_etcd:
                url = stack.enter_context(running_etcd(bench, etcd))
                options = f"coord=etcd:{url}"
            if side == "put":
                return {"value": 1000 * etcd.median_put(url, PUTS)}
            if side == "sync":
                return {"value": 1000 * load("sync", bench.path("cluster"), SYNCS, 4096)}
            mounts = stack.enter_context(
                nodes.nodes(*(f"node{k}" for k in range(NODES)), options=options)
            )
            ranks = [nodes.Rank(mount, k, NODES) for k, mount in enumerate(mounts)]
            took = [commit_seconds(nodes, mounts, ranks, f"step-{k}") for k in range(COMMITS)]
            for rank in ranks:
                rank.leave()
        shutil.rmtree(bench.path("cluster"))
        return {"value": 1000 * statistics.median(took)}

    return sample


# --- two daemons, and a crowd ---


@functools.cache
def of_crowd(bench: Bench, kind: str, count: int) -> dict:
    """What a checkpoint of many nodes costs the daemon of its root; and, "inner", one further down
    the tree."""
    if not os.access(CROWD, os.X_OK):
        raise NotMeasured("make tests first")
    nodes, _, crowd = library(bench)
    saved = getattr(crowd, kind)
    with nodes.nodes("root", "inner", options="lease_s=600,commit_timeout_s=600") as daemons:
        pids = [daemon.pid for daemon in daemons]
        for daemon in daemons:
            wait_until("its cache is in memory", lambda daemon=daemon: is_ready(daemon.status()))
        cpu, rss = [cpu_seconds(pid) for pid in pids], [memory_mib(pid)["VmRSS"] for pid in pids]
        at_end: list[float] = []
        records, size = crowd.save(
            daemons, saved, count, CROWD_FILES, lambda: at_end.append(cpu_seconds(pids[0]))
        )
        sample = {
            "cpu": cpu_seconds(pids[0]) - cpu[0],
            "commit": cpu_seconds(pids[0]) - at_end[0],
            "inner": cpu_seconds(pids[1]) - cpu[1],
            "MiB": peak_mib(pids[0]) - rss[0],
            "inner MiB": peak_mib(pids[1]) - rss[1],
        }
        sample["records heard"], sample["KiB heard"] = records, size / 1024
        sample["verify MiB"] = verify_mib(os.path.join(nodes.BACK, saved.unit))
    shutil.rmtree(bench.path("cluster"))
    return sample


def sample_crowd(kind: str, key: str, count: int):
    def sample(bench: Bench, side: str) -> dict:
        measured = of_crowd(bench, kind, count)
        return {"value": measured[key], **measured}

    return sample


def cluster_rows(quick: bool) -> list[Row]:
    count, said = (200, "200") if quick else (10000, "10^4")
    what = f"end seen to committed, {NODES} nodes on this machine, by "
    return [
        Row(
            "cluster-records",
            f"one commit of {'1000' if quick else '10^4'} nodes, simulated: the busiest node",
            "records",
            ["ckptfs", "1024 nodes", "16 nodes"],
            sample_records,
            once=True,
        ),
        Row(
            "coordinator-cpu",
            f"CPU of the root's daemon, {said} nodes x 10 files",
            "s",
            ["ckptfs"],
            sample_crowd("SHARDS", "cpu", count),
            aim=2,
            once=True,
        ),
        Row(
            "coordinator-memory",
            "memory of the root's daemon, the same",
            "MiB",
            ["ckptfs"],
            sample_crowd("SHARDS", "MiB", count),
            aim=100,
            once=True,
        ),
        Row(
            "coordinator-cpu-ranks",
            "CPU, where each of these files is evidence",
            "s",
            ["ckptfs"],
            sample_crowd("EVERY_RANK", "cpu", count),
            aim=2,
            once=True,
        ),
        Row(
            "coordinator-memory-ranks",
            "memory, the same",
            "MiB",
            ["ckptfs"],
            sample_crowd("EVERY_RANK", "MiB", count),
            aim=100,
            once=True,
        ),
        Row(
            "commit-nodes",
            what + "the backing",
            "ms",
            ["ckptfs", "sync"],
            sample_nodes(False),
            goal=40,
            smaller=True,
        ),
        Row(
            "commit-nodes-etcd",
            what + "etcd",
            "ms",
            ["ckptfs", "put"],
            sample_nodes(True),
            goal=20,
            smaller=True,
        ),
    ]
