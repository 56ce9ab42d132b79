# SPDX-License-Identifier: MIT
"""Several nodes on one machine: mounts of one backing, and the ranks of jobs on them, which do what
a test tells them, one step at a time: so each interleaving is what the test says, and no clock has
a part in it."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

CKPTFS = os.environ["CKPTFS"]
TMP = os.environ["TEST_TMP"]
BACK = os.path.join(TMP, "back")
TXN = BACK + f"/.ckptfs/txn/{os.getuid()}/"
SLOW = int(os.environ.get("TEST_SLOW", "1"))
SECONDS = 60 * SLOW

RANK = r"""
import json, os, sys
files, result = {}, None
for line in sys.stdin:
    result = None
    try:
        exec(json.loads(line), globals())
        answer = {"result": result}
    except OSError as e:
        answer = {"errno": e.errno, "error": str(e)}
    except BaseException as e:
        answer = {"errno": 0, "error": repr(e)}
    print(json.dumps(answer), flush=True)
"""


def skip(why):
    print(why)
    sys.exit(77)


def wait(what, why="it to come", seconds=SECONDS):
    start = time.monotonic()
    while True:
        got = what()
        if got:
            return got
        waited = time.monotonic() - start
        assert waited < seconds, f"waited {seconds:g} s in vain for {why}"
        time.sleep(0.02 if waited < 0.5 else 0.1)


class Node:
    """A mount of the backing, which is killed at the end if it is there yet."""

    def __init__(self, name, options="", backing=BACK, within=()):
        """@within: what its daemon is started by, which says where."""
        self.name, self.backing, self.within = name, backing, within
        self.mnt = os.path.join(TMP, name)
        self.options = options
        self.mount()

    def mount(self):
        os.makedirs(self.mnt, exist_ok=True)
        options = f"node={self.name},log_level=debug,host_cache_size=64M,lease_s=5,quiet_s=1"
        if self.options:
            options += "," + self.options
        with open(self.mnt + ".log", "ab") as log:
            subprocess.run(
                [*self.within, CKPTFS, "mount", "-o", options, self.backing, self.mnt],
                check=True,
                stderr=log,
                timeout=SECONDS,
            )
        self.pid = self.status()["pid"]

    def status(self):
        return json.loads(self.ckptfs("status", "--json", self.mnt))

    def ckptfs(self, *args, fails=False):
        ran = subprocess.run(
            [CKPTFS, *args],
            capture_output=True,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        assert (ran.returncode == 1) if fails else not ran.returncode, (
            args,
            ran.returncode,
            ran.stdout,
            ran.stderr,
        )
        return ran.stderr if fails else ran.stdout

    def path(self, *names):
        return os.path.join(self.mnt, *names)

    def wait_for(self, unit, state="committed"):
        self.ckptfs("wait", "--state", state, "--timeout", str(SECONDS), self.path(unit))

    def fails(self, unit):
        """What `ckptfs wait` says of one that fails."""
        return self.ckptfs("wait", "--timeout", str(SECONDS), self.path(unit), fails=True)

    def wait_for_closed(self, unit, others=1):
        """Until it is known here that at least so many other nodes take part in it, and have none
        of its files open."""

        def closed():
            for pending in self.status()["pending"]:
                if pending["path"] == unit:
                    states = [other["state"] for other in pending["shared"]["others"]]
                    return len(states) >= others and set(states) == {"closed"}
            return False

        wait(closed, "all to be closed")

    def umount(self):
        ran = subprocess.run(
            [CKPTFS, "umount", self.mnt],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * SECONDS,
            check=False,
        )
        return ran.returncode, ran.stdout

    def leave(self):
        """An unmount that has nothing to tell but, on a slow machine, that it takes a while."""
        code, said = self.umount()
        told = [line for line in said.splitlines() if "waiting until its daemon" not in line]
        assert (code, told) == (0, []), (self.name, code, said)

    def kill(self):
        daemon = -1
        with contextlib.suppress(ProcessLookupError):
            daemon = os.pidfd_open(self.pid)
            signal.pidfd_send_signal(daemon, signal.SIGKILL)
        subprocess.run(
            [CKPTFS, "umount", "--force", self.mnt],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
        # Its locks are gone when it is, which takes a while on a busy machine.
        if daemon >= 0:
            assert select.select([daemon], [], [], SECONDS)[0], (
                f"the daemon of {self.name} lives on"
            )
            os.close(daemon)


class Rank:
    """A process of a job, on a node."""

    def __init__(self, node, rank, world, job="job", restart=0, within=(), **more):
        """@within: what it is started by, which says as whom."""
        env = dict(
            os.environ,
            RANK=str(rank),
            WORLD_SIZE=str(world),
            TORCHELASTIC_RUN_ID=job,
            TORCHELASTIC_RESTART_COUNT=str(restart),
            **more,
        )
        self.node, self.rank = node, rank
        # The working directory tells which node: no path in a test's code does.
        self.process = subprocess.Popen(
            [*within, sys.executable, "-P", "-c", RANK],
            env=env,
            cwd=node.mnt,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, code):
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def end(self):
        answer = json.loads(self.process.stdout.readline())
        if "errno" in answer:
            raise OSError(answer["errno"], f"rank {self.rank}: {answer['error']}")
        return answer["result"]

    def do(self, code):
        self.begin(code)
        return self.end()

    def write(self, path, content):
        self.do(f"with open({path!r}, 'wb') as f: f.write({content!r})")

    def read(self, path):
        return self.do(
            f"with open({path!r}, 'rb') as f: result = f.read().decode('latin-1')"
        ).encode("latin-1")

    def leave(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=SECONDS) == 0

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def nodes(*names, options="", make=Node):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        skip("cannot open /dev/fuse")
    os.makedirs(BACK, exist_ok=True)
    there = []
    try:
        for name in names:
            there.append(make(name, options))
        yield there
    except BaseException:
        for node in there:
            print(f"--- {node.name}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(node.pid, signal.SIGCONT)
            with (
                contextlib.suppress(OSError),
                open(node.path(".ckptfs/failures.json"), encoding="utf-8") as file,
            ):
                print(file.read())
            with open(node.mnt + ".log", encoding="utf-8", errors="replace") as log:
                print(log.read()[-3000:])
        raise
    finally:
        for node in there:
            node.kill()


def content(rank, step):
    return b"%d of %d " % (rank, step) * 4096


def save(ranks, unit, step=0, end=True):
    """As DCP does: a directory by rank 0, a file of each rank, and .metadata once all have
    written."""
    ranks[0].do(f"os.makedirs({unit!r}, exist_ok=True)")
    for rank in ranks:
        rank.begin(
            f"with open('{unit}/__{rank.rank}_0.distcp', 'wb') as f: "
            f"f.write({content(rank.rank, step)!r})"
        )
    for rank in ranks:
        rank.end()
    if end:
        finish(ranks, unit, step)


def finish(ranks, unit, step):
    """Ends what save() left open."""
    ranks[0].do(
        f"open('{unit}/.metadata.tmp', 'wb').write(b'step {step}'); "
        f"os.rename('{unit}/.metadata.tmp', '{unit}/.metadata')"
    )


def check(unit, ranks, step=0, backing=BACK):
    """On the bare backing: whole, and what the ranks have saved at @step."""
    path = os.path.join(backing, unit)
    for rank in range(ranks):
        with open(f"{path}/__{rank}_0.distcp", "rb") as file:
            assert file.read() == content(rank, step), (unit, rank, step)
    with open(path + "/.metadata", "rb") as file:
        assert file.read() == b"step %d" % step
    subprocess.run([CKPTFS, "verify", path], check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)
    with open(path + "/.ckptfs-commit.json", encoding="utf-8") as file:
        return json.load(file)


def staged(where=BACK):
    """What is left of saves on the backing."""
    return sorted(
        os.path.join(top, name)
        for top, dirs, files in os.walk(where)
        for name in dirs + files
        if name.startswith(".ckptfs-") and name not in (".ckptfs-commit.json", ".ckptfs-index.json")
    )


def entries(gen, what):
    """Of the root's log, in their order: from which slot, and the rest."""
    found = []
    for nr in range(32):  # there may be gaps; and one that is being made has another name yet
        with (
            contextlib.suppress(FileNotFoundError),
            open(f"{TXN}{gen}.log.0.{nr}", encoding="utf-8") as file,
        ):
            found += re.findall(rf"^{what} (\d+) (.*)", file.read(), re.MULTILINE)
    return found


def voters(gen):
    return {slot for slot, rest in entries(gen, "vote")}


def have_closed(gen):
    """Of three nodes, have both others told that they have nothing open?"""
    last = dict(entries(gen, "report"))
    return len(last) == 2 and all('"open":false' in rest for rest in last.values())


def open_generation():
    return [
        gen
        for gen in (os.path.basename(path)[len(".ckptfs-") :] for path in staged())
        if os.path.exists(TXN + gen + ".open") and not os.path.exists(TXN + gen + ".decision")
    ][0]
