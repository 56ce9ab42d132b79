# SPDX-License-Identifier: MIT
"""Training jobs. Importing a framework takes seconds, so it is done once, here, and each rank is a
fork of this process that has nothing of it but the imports: a session, a log and an environment of
its own, that its own exec could have given it."""

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import threading
import time
import traceback

from . import environment, memory
from .digest import digest, size

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
from ports import free_ports

CLONE_NEWNS = 0x20000  # of sched.h; the others of sys/mount.h
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000


def _show(variables):
    """What /proc/self/environ shows in place of ROOM is what ckptfs learns of the rank, as if exec
    had put it there."""
    with open("/proc/self/stat", encoding="utf-8") as file:
        start, end = map(int, file.read().rpartition(") ")[2].split()[47:49])
    shown = ctypes.string_at(start, end - start)
    at = shown.index(environment.ROOM.encode() + b"=")
    text = (
        b"".join(
            b"%s=%s\0" % (key.encode(), str(value).encode()) for key, value in variables.items()
        )
        + b"_="
    )
    room = shown.index(b"\0", at) - at
    assert len(text) <= room
    ctypes.memmove(start + at, text.ljust(room, b"x"), room)


def import_all(path):
    """What frameworks import only when they need it takes as long: all that a run has imported, for
    the next ones."""
    with open(path, encoding="utf-8") as file:
        for name in json.load(file):
            if name not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
    assert threading.active_count() == 1, f"a fork would lose threads: {threading.enumerate()}"


class Run:
    """What a trainer is given: `dir` to save in, `rank` and `world`, how far to train and how often
    to save, how many times the usual width the model has, and whom to tell. Between saving() and
    saved() there is nothing but the framework's save."""

    def __init__(self, pipe, answers, rank, world, directory, args):
        self._pipe, self._answers = pipe, answers
        self.rank, self.world, self.dir = rank, world, directory
        self.steps, self.every = args.pop("steps"), args.pop("every")
        self.watched = args.pop("watched", False)
        self.scale = args.pop("scale", 1)
        self.args = args
        self._memory = None

    def tell(self, what, step, state=None, **more):
        line = dict(more, what=what, step=step)
        if state is not None:
            line["digest"] = digest(state)
        line["at"] = time.monotonic()
        os.write(self._pipe, (json.dumps(line) + "\n").encode())

    def began(self, step, state):
        """Training begins behind this step, 0 for the first time, with this state."""
        self.tell("began", step, state)

    def saving(self, step, state):
        if not self.args.get("measured"):
            self.tell("saving", step, state)
        else:
            self.tell("saving", step, state, size=size(state))
            self._memory = step, memory.begin()

    def returned(self, step):
        """The call that saves has: training goes on. saved() tells that too, where it has not been
        told."""
        if self._memory and self._memory[0] == step:
            self.tell("returned", step, grown=memory.grown(self._memory[1]))
            self._memory = None

    def saved(self, step):
        """The save has returned. Where the run is watched, it goes on when that has looked."""
        self.returned(step)
        self.tell("saved", step)
        if self.watched:
            assert os.read(self._answers, 1), "nobody looks on"

    def ended(self, step, state):
        self.tell("ended", step, state)

    def imported(self):
        if self.args.get("imported") and self.rank == 0:
            with open(self.args["imported"], "w", encoding="utf-8") as file:
                json.dump(sorted(sys.modules), file)


def _see(node, at):
    """From here on this process, and whatever it starts, has that mount at the path where every
    node has its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    for call in (
        lambda: libc.unshare(CLONE_NEWNS),
        lambda: libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None),
        lambda: libc.mount(os.fsencode(node), os.fsencode(at), None, MS_BIND, None),
    ):
        if call():
            raise OSError(ctypes.get_errno(), f"cannot show {node} at {at}")


class Process:
    def __init__(self, main, rank, world, variables, directory, args, log, node=None):
        self.rank, self.node = rank, node
        pipe, tell = os.pipe()
        answers, self._answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be(main, Run(tell, answers, rank, world, directory, dict(args)), variables, log, node)
        os.close(tell)
        os.close(answers)
        self.pipe, self.status, self.pidfd = pipe, None, os.pidfd_open(self.pid)
        self._rest = b""

    def read(self):
        """What it has told since."""
        part = os.read(self.pipe, 65536)
        *lines, self._rest = (self._rest + part).split(b"\n")
        return [json.loads(line) for line in lines], bool(part)

    def go_on(self):
        os.write(self._answer, b"x")

    def reap(self, seconds):
        """Has it ended within that time?"""
        if self.status is None and select.select([self.pidfd], [], [], max(seconds, 0))[0]:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status is not None

    def close(self):
        for fd in self.pipe, self._answer, self.pidfd:
            os.close(fd)


def _untraced(run):
    """Is it to be traced, and not yet?"""
    with open("/proc/self/status", encoding="utf-8") as file:
        return run.args.get("traced") and "\nTracerPid:\t0\n" in file.read()


def _be(main, run, variables, log, node):
    """Becomes a process of the job."""
    code = 1
    try:
        os.setsid()
        if node:
            _see(node, os.path.dirname(run.dir))
        _show(variables)
        os.environ.pop(environment.ROOM)
        os.environ.update({key: str(value) for key, value in variables.items()})
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        tempfile.tempdir = None  # of TMPDIR, as it was
        while _untraced(run):
            time.sleep(0.01)
        main(run)
        run.imported()
        code = 0
    except BaseException:
        traceback.print_exc()
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(code)


class Job:
    """One incarnation. `told` is all that its ranks have told, rank 0 first where that matters:
    (rank, report). Where there are nodes, which are directories, the ranks are spread over them, as
    by torchrun; each has that of its own node where the directory to save in is."""

    def __init__(self, framework, directory, nodes=(), env=(), **args):
        world = framework.world
        local = world // max(len(nodes), 1)
        variables = dict(env, PWD="/")
        if world:
            variables.update(
                WORLD_SIZE=world,
                LOCAL_WORLD_SIZE=local,
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=free_ports(1)[0],
            )
        if nodes:
            variables.update(
                GROUP_WORLD_SIZE=len(nodes),
                ROLE_NAME="default",
                ROLE_WORLD_SIZE=world,
                TORCHELASTIC_MAX_RESTARTS=1000,
                TORCHELASTIC_USE_AGENT_STORE="False",
            )
        self.told, self.ranks = [], []
        for rank in range(world or 1):
            if world:
                variables.update(RANK=rank, LOCAL_RANK=rank % local)
            if nodes:
                variables.update(GROUP_RANK=rank // local, ROLE_RANK=rank)
            log = f"{os.environ['TEST_TMP']}/log.{rank}"
            self.ranks.append(
                Process(
                    framework.train,
                    rank,
                    world,
                    variables,
                    directory,
                    args,
                    log,
                    nodes[rank // local] if nodes else None,
                )
            )
        self._open = {process.pipe: process for process in self.ranks}

    def listen(self, seconds):
        """Takes in what is told, waiting that long for the first of it. Its reports: [(rank,
        report)]; none: the time is over; None: all are gone."""
        end = time.monotonic() + seconds
        while self._open:
            ready = select.select(list(self._open), [], [], max(end - time.monotonic(), 0))[0]
            news = []
            for pipe in ready:
                process = self._open[pipe]
                reports, more = process.read()
                news += [(process.rank, report) for report in reports]
                if not more:
                    del self._open[pipe]
            self.told += news
            if news or not ready:
                return news
        return None

    def finish(self, seconds):
        """All go to their end by themselves, within that time; how each ended."""
        end = time.monotonic() + seconds * int(os.environ.get("TEST_SLOW") or 1)
        while self.listen(end - time.monotonic()) is not None:
            assert time.monotonic() < end, "the job hangs\n" + self.logs()
        for process in self.ranks:
            assert process.reap(end - time.monotonic()), f"rank {process.rank} hangs\n{self.logs()}"
        return self.close()

    def kill(self, rank):
        """That process, and nothing that it has started."""
        if self.ranks[rank].status is None:
            os.kill(self.ranks[rank].pid, signal.SIGKILL)

    def kill_all(self, node=None):
        """All ranks, of that node or of the job, with what they have started."""
        for process in self.ranks:
            if process.status is None and node in (None, process.node):
                os.killpg(process.pid, signal.SIGKILL)

    def end(self, seconds):
        """As a launcher does when a rank has failed: the others get that time, then they are
        ended."""
        end = time.monotonic() + seconds
        for process in self.ranks:
            process.reap(end - time.monotonic())
        for process in self.ranks:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            assert process.reap(60), "cannot be killed"
        while self.listen(0):
            pass
        return self.close()

    def close(self):
        for process in self.ranks:
            process.close()
        return [process.status for process in self.ranks]

    def logs(self):
        texts = []
        for process in self.ranks:
            with open(
                f"{os.environ['TEST_TMP']}/log.{process.rank}",
                encoding="utf-8",
                errors="replace",
            ) as file:
                texts.append(f"--- rank {process.rank}\n{file.read()[-4000:]}")
        return "\n".join(texts)


def elsewhere(function, *args):
    """What function(*args) returns, called in a fork, so that what it starts (threads, groups) is
    gone with that."""
    pipe, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(pipe)
            out = os.open(
                os.environ["TEST_TMP"] + "/log.elsewhere",
                os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
                0o644,
            )
            os.dup2(out, 1)
            os.dup2(out, 2)
            answer = json.dumps(function(*args)).encode()
            while answer:
                answer = answer[os.write(tell, answer) :]
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(tell)
    with os.fdopen(pipe, "rb") as file:
        answer = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        with open(
            os.environ["TEST_TMP"] + "/log.elsewhere", encoding="utf-8", errors="replace"
        ) as file:
            raise AssertionError(f"{function.__qualname__}{args}\n{file.read()[-6000:]}")
    return json.loads(answer)
