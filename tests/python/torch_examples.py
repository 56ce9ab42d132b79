#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 900
"""The examples of client/python/examples, as a user runs them on a mount: once without an
interruption, and once killed at random instants and started anew. They end with the same weights,
bit by bit. On a plain directory they say so."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

from lazily import SRC, TMP

from harness.mount import Mount

import ckptfs

EXAMPLES = SRC + "/client/python/examples/"
KILLS = int(os.environ.get("CKPTFS_TEST_KILLS") or 3)
SEED = int(os.environ.get("CKPTFS_TEST_SEED") or random.randrange(1 << 30))
STEPS = 12
random.seed(SEED)
print("seed", SEED)
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["CKPTFS_COMMAND"] = os.environ["CKPTFS"]


class Example:
    def __init__(self, name, ranks):
        self.command = [sys.executable, EXAMPLES + name]
        if ranks:
            self.command[1:1] = [
                "-m",
                "torch.distributed.run",
                "--nproc-per-node",
                str(ranks),
                "--master-port",
                "0",
                "--rdzv-backend",
                "c10d",
                "--rdzv-endpoint",
                "127.0.0.1:0",
            ]

    def run(self, directory, kill_at=None):
        """What it says: {"resumed": [...], "saved": [...], "weights": [...]}. It is killed some
        time after it has saved so often."""
        said = {"resumed": [], "saved": [], "weights": []}
        with (
            open("log", "ab") as log,
            subprocess.Popen(
                [*self.command, directory, str(STEPS)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            ) as process,
        ):
            for line in process.stdout:
                what, _, value = line.strip().partition(" ")
                if what in said:
                    said[what].append(value)
                if len(said["saved"]) == kill_at:
                    time.sleep(random.random() * 0.05)
                    end_all(process)
                    return said
            code = process.wait(100)
        with open("log", encoding="utf-8", errors="replace") as log:
            assert code == 0, (self.command, code, log.read()[-3000:])
        return said


def end_all(process):
    """Of a launcher's ranks each has a session of its own."""
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout
    for pid in [process.pid, *map(int, children.split())]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def watch(name, ranks):
    example = Example(name, ranks)
    refused = subprocess.run(
        [*example.command, TMP + "/plain", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=200,
    )
    assert refused.returncode and "plain lies in no mount of ckptfs" in refused.stdout, (
        refused.stdout
    )
    mount = Mount(
        {"host_cache_size": "64M", "capture_check": "all", "quiet_s": 1, "commit_timeout_s": 10},
        "mnt-" + name,
        "back-" + name,
    )
    plain = example.run(mount.mnt + "/whole")
    assert plain["saved"] == [str(i + 1) for i in range(STEPS)], plain
    before = mount.metric("captures_total")
    directory = mount.mnt + "/run"
    for i in range(KILLS):
        said = example.run(directory, kill_at=random.randrange(1, 5))
        print(name, "killed", i, said, flush=True)
        if said["weights"]:
            break
    said = example.run(directory)
    print(name, said, flush=True)
    assert said["weights"] == plain["weights"], (said, plain)
    assert (
        mount.metric("captures_total") - before > 3 * STEPS
        or int((said["resumed"] or ["0"])[0]) > 0
    )
    mount.settled()
    newest = ckptfs.latest(mount.back + "/run")
    assert newest and newest.rstrip(".pt").endswith(str(STEPS)), newest
    mount.umount()


def readme():
    """The ten lines that it begins with: killed in between, and gone on with."""
    with open(SRC + "/README.md", encoding="utf-8") as file:
        text = re.search(
            r"```python\n(import os, torch, ckptfs.*?)```", file.read(), re.DOTALL
        ).group(1)
    mount = Mount({"host_cache_size": "64M"}, "mnt-readme", "back-readme")
    with open("readme.py", "w", encoding="utf-8") as file:
        file.write(
            text.replace("/ckpt", mount.mnt).replace("range(", "print(flush=True) or range(")
            + "    print(step, flush=True)\n"
        )
    began = []
    for last in 3, 99:
        with subprocess.Popen(
            [sys.executable, "readme.py"], stdout=subprocess.PIPE, text=True
        ) as process:
            steps = []
            for line in process.stdout:
                steps += [int(line)] if line.strip() else []
                if steps and steps[-1] == last != 99:
                    process.kill()
            assert last != 99 or process.wait() == 0
        began.append(steps[0])
    assert began[0] == 0 < began[1] <= 99 and steps[-1] == 99, (began, steps)
    mount.settled()
    assert ckptfs.latest(mount.back + "/run").endswith("step-99.pt")
    mount.umount()


readme()
watch("plain.py", 0)
watch("ddp_dcp.py", 2)
try:
    import deepspeed  # noqa: F401
except ImportError as why:
    print("without DeepSpeed:", why)
else:
    watch("deepspeed_zero.py", 2)
