#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# heavy: check-frameworks
# timeout: 300
"""A job of torchrun on two nodes, of which a rank dies: torchrun starts all again, and counts that
on one of the nodes. Each save of both starts is committed, and no rank gets an error.

Each rank saves with DCP to the mount of its node. Rank 1 kills itself after a save, once."""

import json
import re
import socket
import subprocess
import sys

from lazily import SRC, TMP

sys.path.insert(0, SRC + "/tests/cluster")
from nodes import nodes

STEPS, KILLED = 6, 3
RANK = r"""
import os, signal, sys, torch, torch.distributed as dist
from torch.distributed import checkpoint
top, killed, steps, once = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
dist.init_process_group("gloo")
rank, count = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
first = not os.path.exists(once)
saved = [max([int(name[5:]) for name in os.listdir(top) if name.startswith("step-")], default=0)]
dist.broadcast_object_list(saved, 0)
print("rank", rank, "of count", count, "begins after", saved[0], flush=True)
for step in range(saved[0] + 1, steps + 1):
    state = {"w%d" % rank: torch.full((1000,), float(step))}
    checkpoint.save(state, checkpoint_id=top + "/step-%d" % step)
    dist.barrier()
    if step == killed and first:
        if rank:
            open(once, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause() # until its agent ends it: it does not fail
print("rank", rank, "is done", flush=True)
dist.destroy_process_group()
"""

script, once = TMP + "/rank.py", TMP + "/once"
with open(script, "w", encoding="utf-8") as file:
    file.write(RANK)
with socket.create_server(("localhost", 0)) as server:
    port = server.getsockname()[1]

with nodes("one", "two") as mounts:
    agents = []
    for node in mounts:
        args = [
            "--nnodes",
            "2",
            "--nproc-per-node",
            "1",
            "--rdzv-backend",
            "c10d",
            "--rdzv-endpoint",
            f"localhost:{port}",
            "--rdzv-id",
            "run",
            "--max-restarts",
            "3",
            "--monitor-interval",
            "0.1",
        ]
        with open(node.mnt + ".job", "w", encoding="utf-8") as log:
            agents.append(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "torch.distributed.run",
                        *args,
                        script,
                        node.mnt,
                        str(KILLED),
                        str(STEPS),
                        once,
                    ],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
    codes = [agent.wait(240) for agent in agents]
    told = ""
    for node in mounts:
        with open(node.mnt + ".job", encoding="utf-8") as log:
            told += log.read()
    assert codes == [0, 0], (codes, told)
    begun = sorted(
        line.split(" begins")[0] for line in told.splitlines() if " begins after " in line
    )
    assert len(begun) == 4, told  # it was started again once: no rank had an error of ckptfs
    # An agent that meets the other one late counts a restart for that, too.
    assert begun[:3] == ["rank 0 of count 0"] * 2 + ["rank 1 of count 0"], begun
    assert re.fullmatch("rank 1 of count [123]", begun[3]), begun
    for node in mounts:
        node.wait_for(f"step-{STEPS}")
        assert json.loads(node.ckptfs("status", "--json", node.mnt))["failures"] == 0
    for step in range(1, STEPS + 1):
        mounts[0].ckptfs("verify", mounts[0].backing + f"/step-{step}")
