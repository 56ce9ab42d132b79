# SPDX-License-Identifier: MIT
"""The training job of trainer.py on a GlusterFS behind a link of a set speed (net.py runs it).

usage: shaped.py MIB

The program runs in namespaces of its own (processes, mounts, network). When the program ends, the
kernel removes them and all that runs in them. A bridge joins the server to the client; tc (tbf)
limits both directions of the client's link. The server keeps its bricks in memory, so that only the
link limits it, and yields the CPUs to the client, since a real server has its own. The program says
"ready" and the size of the saved state. Then each line on stdin is a JSON list, answered by a line
of JSON; MBPS is the speed of the link:

  ["link", MBPS]
    {"write": MBPS, "read": MBPS}: what fio measures on the client. The first call makes the link,
    and removes the one before.
  ["save", MBPS, HOW, MOUNTED]
    {"blocked": S, "queued": S, "durable": S, "committed": S}: one training step, then a save, to a
    mount of ckptfs or past it; HOW as in trainer.py.
  ["restore", MBPS, HOW, MOUNTED]
    {"restored": S, "verified": S}: a client that has nothing in memory reads the newest of these
    saves; the program compares the content with what was saved. Then `ckptfs verify` runs on a
    client without ckptfs. The save is removed.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

BENCH = os.path.dirname(os.path.realpath(__file__))
TESTS = os.path.dirname(BENCH)
sys.path[1:1] = [TESTS, os.path.join(TESTS, "cluster"), os.path.join(TESTS, "frameworks")]

from harness import enter

enter("torch")

import network
from runner import sandbox

TMP = os.environ["TEST_TMP"]
if os.environ.get(network.INSIDE) != "1":
    lacking = sandbox.namespaces_work()
    if lacking:
        network.skip(f"a network of its own: {lacking}")
    os.execvpe(
        sandbox.NAMESPACES[0],
        [*sandbox.NAMESPACES, "--net", sys.executable, *sys.argv],
        {
            **os.environ,
            network.INSIDE: "1",
            "TEST_PRIVATE": "1",
            "CKPTFS_RUN_DIR": os.path.join(TMP, "run"),
        },
    )

import gluster
import trainer
from processes import CKPTFS, Failed, command, is_ready, mount_status, wait_until

VOLUME = "shaped"
MIB = 1 << 20
CACHES = 3  # of a save: half of the cache is lent, see lazy_cache() of models.py
BURST = "4mb"  # of tbf; with 1mb, writes reach 280 of 400 MB/s
OVERHEAD = 1.05  # what a link carries for each byte of a file
LOWEST = 19  # priority, see nice(1)


def shape(within: list, device: str, mbps: int) -> None:
    try:
        command(
            [
                *within,
                "tc",
                "qdisc",
                "replace",
                "dev",
                device,
                "root",
                "tbf",
                "rate",
                f"{mbps * 8 * OVERHEAD:.0f}mbit",
                "burst",
                BURST,
                "latency",
                "50ms",
            ]
        )
    except Failed as reason:
        network.skip(f"the speed of a link cannot be set: {reason}")


class Client:
    """A host behind a link of its own, and how it reaches the volume: plainly and by ckptfs."""

    def __init__(self, mbps: int, cache_mib: int) -> None:
        self.mbps, self.newest = mbps, {}
        self.host = network.Host()
        shape([], self.host.port, mbps)
        shape(self.host.within, "eth0", mbps)
        self.plain = gluster.mount(VOLUME, os.path.join(TMP, f"plain-{mbps}"), self.host)
        self.mounted = mount(self.plain, os.path.join(TMP, f"ckptfs-{mbps}"), cache_mib)

    def top(self, mounted: bool) -> str:
        return self.mounted if mounted else self.plain

    def fio(self, direction: str, size: int) -> float:
        path = os.path.join(self.plain, "fio")
        text = command(
            [
                "fio",
                f"--name={direction}",
                f"--filename={path}",
                f"--rw={direction}",
                "--bs=1M",
                f"--size={size}",
                "--end_fsync=1",
                "--output-format=json",
            ]
        )
        return json.loads(text[text.index("{") :])["jobs"][0][direction]["bw_bytes"] / 1e6

    @contextlib.contextmanager
    def cold(self):
        """Another client of the same host, with nothing in memory."""
        path = gluster.mount(VOLUME, os.path.join(TMP, f"cold-{self.mbps}"), self.host)
        try:
            yield path
        finally:
            command(["umount", path])

    def close(self) -> None:
        for path, _ in self.newest.values():
            command(["rm", "-rf", path])
        command([CKPTFS, "umount", self.mounted])
        command(["umount", self.plain])
        self.host.close()


def mount(backing: str, where: str, cache_mib: int) -> str:
    os.makedirs(where, exist_ok=True)
    command([CKPTFS, "mount", "-o", f"host_cache_size={cache_mib}M", backing, where])
    wait_until("the cache is in memory", lambda: is_ready(mount_status(where)))
    return where


class Shaped:
    """The job, and the client that it runs on now."""

    def __init__(self, mib: int) -> None:
        self.job = trainer.prepare(mib)
        self.client = None
        self.steps = 0

    def at(self, mbps: int) -> Client:
        if not self.client or self.client.mbps != mbps:
            self.close()
            self.client = Client(mbps, CACHES * self.job.bytes // MIB + 16)
        return self.client

    def close(self) -> None:
        if self.client:
            trainer.close(self.job, self.client.mounted)
            self.client.close()
            self.client = None

    def link(self, mbps: int) -> dict:
        client = self.at(mbps)
        took = {direction: client.fio(direction, self.job.bytes) for direction in ("write", "read")}
        os.unlink(os.path.join(client.plain, "fio"))
        return took

    def save(self, mbps: int, how: str, mounted: bool) -> dict:
        client = self.at(mbps)
        self.job.step()
        self.steps += 1
        path = os.path.join(client.top(mounted), how, trainer.name_of(how, self.steps))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        took = trainer.save(self.job, how, path, mounted)
        previous, _ = client.newest.get((how, mounted), (None, None))
        client.newest[how, mounted] = path, trainer.digest(self.job.saved)
        if previous:
            command(["rm", "-rf", previous])
        return took

    def restore(self, mbps: int, how: str, mounted: bool) -> dict:
        client = self.at(mbps)
        path, saved = client.newest.pop((how, mounted))
        took = {}
        with client.cold() as backing:
            name = os.path.relpath(path, client.top(mounted))
            top = backing
            if mounted:
                top = mount(backing, os.path.join(TMP, f"cold-ckptfs-{mbps}"), 64)
            state = trainer.empty(self.job.saved)
            start = time.monotonic()
            state = trainer.LOADS[how](state, os.path.join(top, name)) or state
            took["restored"] = time.monotonic() - start
            if trainer.digest(state) != saved:
                sys.exit(f"{path}: what was restored is not what was saved")
            if mounted:
                command([CKPTFS, "umount", top])
        if mounted:
            with client.cold() as backing:
                start = time.monotonic()
                command([CKPTFS, "verify", os.path.join(backing, name)])
                took["verified"] = time.monotonic() - start
        command(["rm", "-rf", path])
        return took


def start_server() -> None:
    os.makedirs(TMP, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=90%", "tmpfs", TMP], check=True)
    gluster.start()
    gluster.volume(VOLUME)
    yield_cpus("glusterfsd")


def yield_cpus(program: str) -> None:
    """All processes of @program run when nothing else wants to, wherever the kernel groups
    processes by session or not."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if read(f"/proc/{pid}/comm") == program + "\n":
                for thread in os.listdir(f"/proc/{pid}/task"):
                    os.setpriority(os.PRIO_PROCESS, int(thread), LOWEST)
                with open(f"/proc/{pid}/autogroup", "w", encoding="ascii") as group:
                    group.write(str(LOWEST))


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def main() -> None:
    network.enter()
    start_server()
    shaped = Shaped(int(sys.argv[1]))
    print("ready", shaped.job.bytes, flush=True)
    for line in sys.stdin:
        verb, *words = json.loads(line)
        print(json.dumps(getattr(shaped, verb)(*words)), flush=True)
    shaped.close()


if __name__ == "__main__":
    main()
