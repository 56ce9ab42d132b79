#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-long
# timeout: 240
# A checkpoint of a thousand nodes and ten thousand files: the root and an inner node of the tree,
# with their mounts, hear of them what they need, and the commit file has every file, by who wrote
# it; also where the end is shown by all of them.

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SRC"], "tests/cluster"))
from crowd import EVERY_RANK, SHARDS, save
from nodes import BACK, CKPTFS, SECONDS, nodes, wait

NODES, FILES = 1000, 10
BASE_KIB, FILE_KIB = 16 << 10, 1  # make bench has the memory of 10^5 files
RECORDS, KIB = 250, 500  # that the root hears; less than that many nodes tell


def memory(node, what):
    with open(f"/proc/{node.pid}/status", encoding="ascii") as file:
        return int(re.search(rf"^{what}:\s+(\d+) kB", file.read(), re.M).group(1))


def check(kind):
    path = os.path.join(BACK, kind.unit)
    with open(path + "/.ckptfs-commit.json", encoding="utf-8") as file:
        commit = json.load(file)
    assert commit["world"] == {"ranks": NODES, "nodes": NODES}, commit["world"]
    labels = ["root", "inner"] + [f"crowd{k:05}" for k in range(2, NODES)]
    wrote = {
        kind.pattern % (rank, file): (labels[rank], rank)
        for rank in range(NODES)
        for file in range(FILES)
    }
    listed = {
        entry["path"]: (entry["node"], entry["rank"])
        for entry in commit["files"]
        if entry["path"] in wrote
    }
    wrong = [
        (name, who, listed.get(name)) for name, who in wrote.items() if listed.get(name) != who
    ]
    assert not wrong, wrong[:10]
    subprocess.run([CKPTFS, "verify", path], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)
    left = [
        name
        for name in os.listdir(path)
        if name.startswith(".ckptfs-") and name not in (".ckptfs-commit.json", ".ckptfs-index.json")
    ]
    assert not left, left


with nodes("root", "inner", options="lease_s=600,commit_timeout_s=600") as daemons:
    for node in daemons:
        wait(
            lambda node=node: node.status()["cache"]["faulted"] == node.status()["cache"]["size"],
            "its cache to be there",
        )
    before = [memory(node, "VmRSS") for node in daemons]
    for kind in (SHARDS, EVERY_RANK):
        records, size = save(daemons, kind, NODES, FILES)
        assert records < RECORDS and size < KIB * 1024, (records, size)
        check(kind)
    for node, was in zip(daemons, before):
        assert (
            "CKPTFS_TEST_SANITIZED" in os.environ
            or memory(node, "VmHWM") - was < BASE_KIB + FILE_KIB * NODES * FILES
        ), (node.name, was, memory(node, "VmHWM"))
