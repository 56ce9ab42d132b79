#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# cpu: 15
"""One checkpoint over many nodes, one of which is killed: `make demo-cluster` builds everything and
runs this.

Four mounts of one directory are four nodes, with two ranks of a job on each (cluster_rank.py),
which save every step. At a random step, when a random part of a random rank's file is written, that
rank's node dies: its daemon and its ranks, kill -9. What the others tell is shown, and what is on
the backing is looked at; then the job is started again on the three nodes that are left, from the
newest checkpoint. All of it is in one temporary directory, which goes when this ends, however it
ends, as do the mounts.
"""

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import cluster_rank

USAGE = """usage: cluster.py         (make demo-cluster)

Four nodes on this machine, eight ranks, a checkpoint of all at every step; one node is killed
in the middle of one, and the job goes on with three. About half a minute.
Exit 0: all was as it should be; 1: it was not.

environment
  CKPTFS                the command to test   ({ckptfs})
  TMPDIR                where the directories are made; about 1 GiB free
  DEMO_SEED             another number, another node, step and byte; it is printed
  DEMO_MIB              MiB of a checkpoint   (12)
  DEMO_STEPS            that are saved after the restart, for who wants to watch (3)
"""
CKPTFS = os.environ.get("CKPTFS") or os.path.join(HERE, "../../build/bin/ckptfs")
NAMES, RANKS = ("one", "two", "three", "four"), 2  # of each node
LEASE_S, COMMIT_S = 5, 20
SECONDS = 120  # nothing takes that long

started = time.monotonic()


def say(text: str = "") -> None:
    print(f"{time.monotonic() - started:6.1f} s  {text}" if text else "", flush=True)


def show(text: str) -> None:
    for line in text.rstrip().splitlines():
        print("          | " + line, flush=True)


def die(text: str) -> None:
    sys.exit("demo: " + text)


def run(*args: str, fails: bool = False) -> str:
    """ckptfs ...; what it says. @fails: with exit status 1, on stderr."""
    try:
        ran = subprocess.run(
            [CKPTFS, *args],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except OSError as e:
        die(f"{CKPTFS}: {e.strerror}; run make first")
    except subprocess.TimeoutExpired:
        die(f"ckptfs {' '.join(args)}: no answer after {SECONDS} s")
    if ran.returncode != (1 if fails else 0):
        die(f"ckptfs {' '.join(args)}: exit status {ran.returncode}: {ran.stdout}{ran.stderr}")
    return ran.stderr if fails else ran.stdout


class Node:
    def __init__(self, work: str, name: str) -> None:
        self.name, self.mnt, self.pid, self.here = name, os.path.join(work, name), 0, True
        self.save_dir = os.path.join(self.mnt, "run")
        os.mkdir(self.mnt)

    def mount(self, backing: str) -> None:
        run(
            "mount",
            "-o",
            f"node={self.name},lease_s={LEASE_S},commit_timeout_s={COMMIT_S},host_cache_size=64M",
            backing,
            self.mnt,
        )
        self.pid = json.loads(run("status", "--json", self.mnt))["pid"]

    def kill(self) -> None:
        self.here = False
        os.kill(self.pid, signal.SIGKILL)

    def clear(self) -> None:
        """Whatever there is of it, and however it does."""
        if os.path.ismount(self.mnt) or not os.access(self.mnt, os.R_OK):
            with contextlib.suppress(subprocess.TimeoutExpired, OSError):
                subprocess.run(
                    [CKPTFS, "umount", "--force", self.mnt],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=60,
                    check=False,
                )
        end = time.monotonic() + SECONDS
        while self.pid and os.path.exists(f"/proc/{self.pid}") and time.monotonic() < end:
            time.sleep(0.02)  # it has the backing open, of which nothing is to be left


class Job:
    """Its ranks, and what torchrun does for them: it starts them, and answers their barriers."""

    def __init__(
        self, nodes: list, size: int, restart: int, *more: str, victim: int = -1, hold: str = ""
    ) -> None:
        world = len(nodes) * RANKS
        self.nodes, self.ranks = nodes, []
        for rank in range(world):
            node = nodes[rank // RANKS]
            env = dict(
                os.environ,
                RANK=str(rank),
                LOCAL_RANK=str(rank % RANKS),
                WORLD_SIZE=str(world),
                LOCAL_WORLD_SIZE=str(RANKS),
                TORCHELASTIC_RUN_ID="demo",
                TORCHELASTIC_RESTART_COUNT=str(restart),
                PARAMETER_BYTES=str(size),
            )
            # Each finds the directory, and what it resumes from, below the mount of its own node.
            args = [arg.replace("MNT", node.mnt) for arg in ("MNT/run", *more)]
            args += ["--hold", hold] if rank == victim else []
            self.ranks.append(
                subprocess.Popen(
                    [sys.executable, os.path.join(HERE, "cluster_rank.py"), *args],
                    env=env,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )

    def answers(self) -> list:
        """A line of each rank."""
        said, left = [], list(self.ranks)
        while left:
            ready = select.select([rank.stdout for rank in left], [], [], SECONDS)[0]
            if not ready:
                die(f"no word from rank {self.ranks.index(left[0])} for {SECONDS} s")
            for rank in [rank for rank in left if rank.stdout in ready]:
                line = rank.stdout.readline().strip()
                if not line:
                    die(f"rank {self.ranks.index(rank)} ended with exit status {rank.wait()}")
                said.append(line)
                left.remove(rank)
        return said

    def go_on(self) -> str:
        """To the next barrier, or the end, of all."""
        said = self.answers()
        if any(line.startswith("held") for line in said):
            return "held"
        if len(set(said)) != 1:
            die(f"the ranks are not at one barrier: {said}")
        if said[0] != "done":
            for rank in self.ranks:
                rank.stdin.write("go\n")
                rank.stdin.flush()
        return said[0]

    def of(self, node: Node) -> list:
        at = self.nodes.index(node) * RANKS
        return self.ranks[at : at + RANKS]

    def close(self) -> None:
        for rank in self.ranks:
            with contextlib.suppress(OSError):
                rank.stdin.close()
        for rank in self.ranks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.wait(timeout=10)
            if rank.poll() is None:
                rank.kill()
            rank.wait()


def kill(node: Node, job: Job) -> None:
    """As if its power failed: nobody of it tells anybody anything."""
    node.kill()
    for rank in job.of(node):
        rank.kill()
    for rank in job.of(node):
        rank.wait()


def told(nodes: list, path: str, since: float) -> None:
    """What each of them says of the save that failed, and how soon."""
    waits = [
        subprocess.Popen(
            [CKPTFS, "wait", "--timeout", str(SECONDS), os.path.join(node.mnt, path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in nodes
    ]
    try:
        for node, waiting in zip(nodes, waits):
            text = waiting.communicate()[1].strip()
            took = time.monotonic() - since
            if waiting.returncode != 1 or "not committed" not in text:
                die(f"node {node.name}: ckptfs wait: exit status {waiting.returncode}: {text}")
            say(
                f"node {node.name} reports it after {took:.1f} s "
                f"(bound: commit_timeout_s={COMMIT_S})"
            )
            show(text)
            if took > COMMIT_S:
                die("too late")
    finally:
        for waiting in waits:
            waiting.kill()
            waiting.wait()


def check(backing: str, last: int) -> None:
    """On the bare backing: step-1 to step-@last, each whole, with what training comes to; and
    nothing else."""
    there = sorted(os.listdir(os.path.join(backing, "run")))
    names = [name for name in there if not name.startswith(".ckptfs-")]
    if sorted(names) != sorted(f"step-{n}" for n in range(1, last + 1)):
        die(f"the backing has {', '.join(names)}; step-1 to step-{last} were committed")
    values = [cluster_rank.first(n) for n in range(cluster_rank.PARAMETERS)]
    for step in range(1, last + 1):
        path = os.path.join(backing, "run", f"step-{step}")
        values = [cluster_rank.trained(value) for value in values]
        if [cluster_rank.read(path, n) for n in range(len(values))] != values:
            die(f"{path} has other values than training comes to")
    show(run("verify", os.path.join(backing, "run")))


def frame(node: Node) -> None:
    say(f"$ ckptfs top --count 1 {node.mnt}")
    show(run("top", "--count", "1", node.mnt))


def demo(work: str, nodes: list) -> None:
    seed = os.environ.get("DEMO_SEED") or str(random.SystemRandom().randrange(10**6))
    chance = random.Random(seed)
    size = max(
        int(float(os.environ.get("DEMO_MIB", "12")) * (1 << 20)) // cluster_rank.PARAMETERS, 4096
    )
    backing = os.path.join(work, "backing")
    os.mkdir(backing)
    say(f"four nodes with the backing {backing}; DEMO_SEED={seed}")
    for node in nodes:
        node.mount(backing)
    say("to watch it, from another terminal:")
    for node in nodes:
        show(f"{os.path.realpath(CKPTFS)} top {node.mnt}")
    os.mkdir(nodes[0].save_dir)

    doomed_step, victim = chance.randint(3, 6), chance.randrange(len(nodes) * RANKS)
    doomed = nodes[victim // RANKS]
    most = len(range(victim, cluster_rank.PARAMETERS, len(nodes) * RANKS)) * size
    hold = chance.randrange(1, most)
    job = Job(nodes, size, 0, str(doomed_step + 1), victim=victim, hold=f"{doomed_step}:{hold}")
    with contextlib.closing(job):
        while True:
            at = job.go_on()
            if at == "held":
                break
            if at.startswith("barrier saved"):
                say(f"8 ranks on 4 nodes have saved step-{at.split()[-1]}")
        left = [node for node in nodes if node is not doomed]
        for node in nodes:
            run(
                "wait",
                "--timeout",
                str(SECONDS),
                os.path.join(node.save_dir, f"step-{doomed_step - 1}"),
            )
        say(
            f"step-1 to step-{doomed_step - 1} are committed; of step-{doomed_step} "
            f"rank {victim} has written {hold} of {most} bytes, on node {doomed.name}"
        )
        frame(left[0])
        say(f"$ ckptfs why {left[0].save_dir}/step-{doomed_step}")
        show(run("why", os.path.join(left[0].save_dir, f"step-{doomed_step}")))
        first = victim // RANKS * RANKS
        say(f"kill -9: node {doomed.name}, its daemon and ranks {first} and {first + 1}")
        since = time.monotonic()
        kill(doomed, job)
        told(left, f"run/step-{doomed_step}", since)
    doomed.clear()
    say("the backing:")
    check(backing, doomed_step - 1)

    newest = run("latest", "--verify", left[0].save_dir).strip()
    say(f"$ ckptfs latest --verify {left[0].save_dir}")
    show(newest)
    if newest != os.path.join(left[0].save_dir, f"step-{doomed_step - 1}"):
        die("that is not the newest that was committed")
    last = doomed_step - 1 + int(os.environ.get("DEMO_STEPS", "3"))
    say("the job is started again from it, on nodes " + ", ".join(node.name for node in left))
    job = Job(left, size, 1, str(last), "--resume", f"MNT/run/step-{doomed_step - 1}")
    with contextlib.closing(job):
        at = ""
        while at != "done":
            at = job.go_on()
            if at.startswith("barrier from"):
                say(f"6 ranks on 3 nodes go on from step {at.split()[-1]}")
            if at.startswith("barrier saved"):
                say(f"6 ranks on 3 nodes have saved step-{at.split()[-1]}")
    for node in left:
        run("wait", "--timeout", str(SECONDS), os.path.join(node.save_dir, f"step-{last}"))
    frame(left[0])
    for node in left:
        run("umount", node.mnt)
    say("unmounted; the backing:")
    check(backing, last)
    say(
        f"node {doomed.name} died in the middle of step-{doomed_step}: nothing but whole "
        "checkpoints was ever to be seen, and no step that was committed was lost"
    )


def interrupted(number: int, _frame) -> None:
    for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    say("interrupted, cleaning up")
    sys.exit(128 + number)


def main() -> None:
    if len(sys.argv) > 1:
        print(
            USAGE.format(ckptfs=CKPTFS),
            end="",
            file=sys.stdout if sys.argv[1] in ("-h", "--help") else sys.stderr,
        )
        sys.exit(0 if sys.argv[1] in ("-h", "--help") else 2)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    work, nodes = os.path.realpath(tempfile.mkdtemp(prefix="ckptfs-cluster.")), []
    try:
        for name in NAMES:
            nodes.append(Node(work, name))
        demo(work, nodes)
    finally:
        for node in nodes:
            node.clear()
        if any(os.path.ismount(node.mnt) for node in nodes):
            print(f"demo: there are still mounts below {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)


main()
