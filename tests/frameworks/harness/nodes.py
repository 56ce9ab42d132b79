# SPDX-License-Identifier: MIT
"""The same with the ranks spread over nodes, each of which has a mount of one backing: as by
torchrun, that is started on each. Every rank has the mount of its node at the same path, as it has
on a cluster."""

import os

from . import environment
from .jobs import Job
from .mount import Mount
from .watch import CONFIG, SEED, Watch, write_down

NODES = ("one", "two")


class Spread(Watch):
    kinds = (*Watch.kinds, "node")
    kills_each = int(os.environ.get("CKPTFS_TEST_KILLS") or 2)

    def __init__(self, framework):
        super().__init__(framework)
        self.at = self.tmp + "/mnt"  # where ranks have the mount of their node
        self.jobs = 0
        os.mkdir(self.at)

    def mount_all(self):
        for node in NODES:
            self.mounts.append(
                Mount({**CONFIG, **self.fw.config, "node": node, "lease_s": 5}, node)
            )

    def job(self, plain=None, **more):
        self.jobs += 1
        places = [plain] * len(NODES) if plain else [mount.mnt for mount in self.mounts]
        # By an address of loopback nobody could tell that it is one job on several nodes.
        env = {"TORCHELASTIC_RUN_ID": "run", "TORCHELASTIC_RESTART_COUNT": self.jobs}
        return Job(self.fw, self.at + "/run", places, env, **self.args(**more))

    def strike(self, kind, job, alive, choose):
        victim = choose.choice(self.mounts)
        if kind in ("rank", "job"):
            return super().strike(kind, job, alive, choose)
        if kind == "node":
            job.kill_all(victim.mnt)
        victim.kill()
        return victim

    def switches(self):
        """That does not depend on the nodes."""

    def record(self):
        write_down("results.nodes", {"name": self.fw.name, "killed": self.killed})


def spread(framework):
    environment.need_fuse()
    print("seed", SEED)
    Spread(framework).all()
