# SPDX-License-Identifier: MIT
"""What a save costs. The storage of the mount takes next to nothing meanwhile, so whatever waits
for it does not return; and TMPDIR is a mount of its own, so that the daemons count all that is
written."""

import copy
import os
import statistics

from .jobs import Job
from .mount import Mount, ckptfs

SAVES = 3
SCALE = 4  # of the model: large against what else there is in memory
FAST = {"host_cache_size": "64M"}
SLOW = {"host_cache_size": "640M", "flush_bw": "1K"}


def measure(framework, seconds):
    """{what is written to the mount and to TMPDIR, what is added to the memory of the ranks, and
    what is captured lazily, in times the state; and how many fsyncs there are}, for each save. All
    saves return, with nothing durable."""
    name = type(framework).__name__
    slow = Mount({**framework.config, **SLOW}, name + ".slow", name + ".slow.back")
    fast = Mount(FAST, name + ".tmp", name + ".tmp.back")
    framework = copy.copy(framework)
    framework.keep = SAVES + 1  # who removes a checkpoint that is being saved waits until it is
    os.makedirs(slow.mnt + "/run")
    os.makedirs(fast.mnt + "/tmp")
    job = Job(
        framework,
        slow.mnt + "/run",
        env={"TMPDIR": fast.mnt + "/tmp"},
        steps=SAVES * framework.every,
        every=framework.every,
        scale=SCALE,
        measured=True,
    )
    codes = job.finish(seconds)
    assert not any(codes), (codes, job.logs())
    for path in framework.found(slow.mnt + "/run").values():
        state = os.getxattr(path, "user.ckptfs.state")
        assert state in (b"open", b"sealed"), (
            "the storage was too fast to tell whether a save waits for it",
            path,
            state,
        )
    size = max(report.get("size", 0) for _, report in job.told)
    costs = {
        "mount": slow.metric("written_bytes_total") / SAVES / size,
        "TMPDIR": fast.metric("written_bytes_total") / SAVES / size,
        "memory": _grown(job.told) / size,
        "captured": slow.metric("captured_bytes_total") / SAVES / size,
        "fsyncs": slow.metric("request_seconds_count", "FSYNC") / SAVES,
    }
    slow.abandon()
    fast.abandon()
    return costs


def ordinary_without_rules(framework, seconds):
    """Its files are then no checkpoints, but whole all the same."""
    name = type(framework).__name__
    mount = Mount(FAST, name + ".ordinary", name + ".ordinary.back")
    os.makedirs(mount.mnt + "/run")
    job = Job(framework, mount.mnt + "/run", steps=framework.every, every=framework.every)
    codes = job.finish(seconds)
    assert not any(codes), (codes, job.logs())
    for path in framework.found(mount.back + "/run").values():
        code, told = ckptfs("verify", path)
        assert code == 1 and "no digest recorded" in told, (code, told)
    assert mount.metric("committed_total") == 0
    mount.umount()


def _grown(told):
    """By one save, of all ranks."""
    grown = {}
    for _, report in told:
        if report["what"] == "returned":
            grown[report["step"]] = grown.get(report["step"], 0) + report["grown"]
    assert len(grown) == SAVES, grown
    return statistics.median(grown.values())


def times(costs):
    """In whole states. What is small beside them, each save has some of."""
    return tuple(int(costs[what] + 0.4) for what in ("mount", "TMPDIR", "memory"))
