# SPDX-License-Identifier: MIT
"""Running one test: its environment, its namespaces, its time limit, and its end.

As root a test gets a mount and a pid namespace. Their pid 1 is a small shell (INIT) that starts the
test, reaps orphans, and reports the test's exit status; then it waits to be killed, so that the
runner can look at what was left before everything goes at once. A test that times out ends in the
same way, only without a status. Without root (or namespaces) a test's processes are recognised by
TEST_TMP in their environment.
"""

import math
import os
import select
import shutil
import signal
import stat
import subprocess
import time

from runner import cpu, leftovers

EXIT_SKIP = 77
EXIT_LATER = 75
KILL_WAIT_S = 3
LOOP_WAIT_S = 3

# $1: fd for the status, $2: fd that is at its end when the runner dies, $3: the log; then the test.
INIT = """
status=$1 runner=$2
exec >>"$3" 2>&1
shift 3
eval "setsid -- \\"\\$@\\" $status>&- $runner<&-"
rc=$?
echo "$rc" >&"$status"
read -r _ <&"$runner"
"""
NAMESPACES = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
]
# What describes a job to ckptfs, or configures it, must come from the test alone.
FOREIGN_PREFIXES = ("CKPTFS_", "SLURM_", "TORCHELASTIC_", "TEST_")
FOREIGN_NAMES = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
)


def namespaces_work():
    """None, or why tests cannot have namespaces of their own."""
    if os.geteuid() != 0:
        return "not root"
    try:
        probe = subprocess.run(
            NAMESPACES + ["true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        return str(error)
    return None if probe.returncode == 0 else probe.stdout.strip() or "unshare failed"


class Result:
    """`verdict` is ok, FAIL, skip, later (a skip, unless it can be run alone) or stopped (by the
    user)."""

    def __init__(
        self, name, verdict, seconds=0.0, reason="", log=None, tmp=None, extra=(), cpu_s=0.0
    ):
        self.name, self.verdict, self.seconds, self.reason = name, verdict, seconds, reason
        self.cpu_s = cpu_s
        self.log, self.tmp = log, tmp
        self.extra = list(extra)  # more lines for a failure's report


class Setup:
    """What all tests of a run share; const after create."""

    def __init__(self, root, build, run_dir, private, stop_fd, keep, keep_failed, limit_s, slow):
        self.root, self.build, self.run_dir = root, build, run_dir
        self.private = private  # namespaces for each test
        self.stop_fd = stop_fd  # readable once the run is to stop
        self.keep, self.keep_failed = keep, keep_failed
        self.limit_s, self.slow = limit_s, slow
        self.cpu_factor = cpu.factor(os.environ, slow)
        self.message_log = os.path.join(run_dir, "messages")

    def environment(self, test, tmp):
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(FOREIGN_PREFIXES) or key.startswith("CKPTFS_TEST_")
        }
        for key in FOREIGN_NAMES:
            env.pop(key, None)
        env.update(
            BUILD=self.build,
            SRC=self.root,
            CKPTFS=self.build + "/bin/ckptfs",
            PATH=self.build + "/bin:" + os.environ.get("PATH", os.defpath),
            TEST_NAME=test.name,
            TEST_TMP=tmp,
            TMPDIR=tmp,
            TEST_PRIVATE="1" if self.private else "0",
            TEST_SLOW=str(math.ceil(self.slow)),
            CKPTFS_RUN_DIR=tmp + "/run",
            CKPTFS_MESSAGE_LOG=self.message_log,
            LC_ALL="C.UTF-8",
            PYTHONDONTWRITEBYTECODE="1",
        )
        if test.is_long:
            env["CKPTFS_TEST_LONG"] = "1"
        return env


class Sandbox:
    def __init__(self, setup, test, number):
        self.setup, self.test = setup, test
        folder = f"{number}-{os.path.splitext(os.path.basename(test.name))[0][:16]}"
        self.tmp = os.path.join(setup.run_dir, folder)
        self.log = os.path.join(setup.run_dir, folder + ".log")
        self.limit_s = (setup.limit_s or test.timeout_s) * setup.slow
        self.extra = []
        self.process = None

    def run(self):
        """Run the test to its end and clean up after it."""
        if self.test.problem:
            return Result(self.test.name, "FAIL", reason=self.test.problem)
        if self.test.needs_root and os.geteuid() != 0:
            return Result(self.test.name, "skip", reason="needs root")
        os.mkdir(self.tmp, 0o755)
        started = time.monotonic()
        verdict, reason = self._judge(*self._start_and_wait())
        seconds = time.monotonic() - started
        cpu_s = cpu.used_by(self._pids())
        over = cpu.over_budget(self.test, cpu_s, self.setup.cpu_factor) if verdict == "ok" else None
        if over:
            verdict, reason = "FAIL", over
        self._end()
        kept = self.setup.keep or (verdict == "FAIL" and self.setup.keep_failed)
        if not kept:
            self._remove_tmp()
        return Result(
            self.test.name,
            verdict,
            seconds,
            reason,
            self.log,
            self.tmp if kept else None,
            self.extra,
            cpu_s,
        )

    def _start_and_wait(self):
        """Start, wait; returns ('exit', status) or ('timeout'|'stop'|'lost', None)."""
        status_in, status_out = os.pipe()
        runner_in, self.runner_fd = os.pipe()
        self.status_fd = status_in
        command = [
            "bash",
            "-c",
            INIT,
            "init",
            str(status_out),
            str(runner_in),
            self.log,
            self.test.path,
            *self.test.words,
        ]
        # A log of its own for unshare, which has something to say when its child is killed.
        with open(self.log, "wb"), open(self.log + ".sandbox", "wb") as own_log:
            self.process = subprocess.Popen(
                (NAMESPACES if self.setup.private else []) + command,
                cwd=self.tmp,
                env=self.setup.environment(self.test, self.tmp),
                stdin=subprocess.DEVNULL,
                stdout=own_log,
                stderr=own_log,
                start_new_session=True,
                pass_fds=(status_out, runner_in),
            )
        os.close(status_out)
        os.close(runner_in)
        ready, _, _ = select.select([status_in, self.setup.stop_fd], [], [], self.limit_s)
        if status_in in ready:
            answer = os.read(status_in, 16).strip()
            return ("exit", int(answer)) if answer else ("lost", None)
        if ready:
            return "stop", None
        self.extra.append("its processes before the kill:")
        self.extra += leftovers.bounded(10, leftovers.describe, self._pids()[1:]) or [
            "  (could not be read)"
        ]
        return "timeout", None

    def _judge(self, how, status):
        if how == "stop":
            return "stopped", "interrupted"
        if how == "timeout":
            return "FAIL", f"timed out after {self.limit_s:g} s"
        if how == "lost":
            self.extra += self._lines(self.log + ".sandbox")
            return "FAIL", "its sandbox ended before the test did"
        if status == 0:
            return "ok", ""
        if status in (EXIT_SKIP, EXIT_LATER):
            lines = [line for line in self._lines(self.log) if line.strip()]
            return "skip" if status == EXIT_SKIP else "later", lines[
                -1
            ].strip() if lines else "no reason given"
        if status > 128:
            try:
                return "FAIL", f"killed by {signal.Signals(status - 128).name}"
            except ValueError:
                pass
        return "FAIL", f"exit status {status}"

    @staticmethod
    def _lines(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()

    def _pids(self):
        """The sandbox's first process, with namespaces their pid 1; then the test's."""
        if self.setup.private:
            return leftovers.descendants(self.process.pid)
        found = set(leftovers.tagged("TEST_TMP=" + self.tmp)) | set(
            leftovers.descendants(self.process.pid)
        )
        return [self.process.pid] + sorted(found - {self.process.pid})

    def _end(self):
        """End every process, mount and loop device of the test, however stuck."""
        pids = self._pids()
        mounts = leftovers.mounts_below(pids or [os.getpid()], self.tmp)
        leftovers.thaw(mounts)
        if not self._kill():
            leftovers.abort_fuse(mounts)
            if not self._kill():
                self.extra.append("these processes could not be killed:")
                self.extra += leftovers.bounded(10, leftovers.describe, self._pids()) or []
        os.close(self.status_fd)
        os.close(self.runner_fd)
        if not self.setup.private:
            leftovers.unmount(leftovers.mounts_below([os.getpid()], self.tmp))
        if os.geteuid() == 0:
            self._detach_loops()

    def _kill(self):
        """SIGKILL everything; whether all of it is gone. A namespace's pid 1 takes the rest with
        it."""
        deadline = time.monotonic() + KILL_WAIT_S
        while True:
            pids = self._pids()
            for pid in pids[:1] if self.setup.private else pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if self.setup.private and not pids:
                self.process.kill()
            try:
                self.process.wait(0.2)
                if self.setup.private or not leftovers.tagged("TEST_TMP=" + self.tmp):
                    return True
            except subprocess.TimeoutExpired:
                pass
            if time.monotonic() > deadline:
                return False

    def _detach_loops(self):
        """The runner's folder has a random name, so a part of the path says whose device it is."""
        marker = f"/{os.path.basename(self.setup.run_dir)}/{os.path.basename(self.tmp)}/"
        deadline = time.monotonic() + LOOP_WAIT_S
        while leftovers.detach_loops(marker):
            if time.monotonic() > deadline:
                self.extra.append("still attached: " + " ".join(leftovers.loops_backed_by(marker)))
                return
            time.sleep(0.05)

    def _remove_tmp(self):
        if leftovers.mounts_below([os.getpid()], self.tmp):
            self.extra.append(f"still mounted below {self.tmp}: left alone")
            return

        def open_up(function, path, _):
            """A directory that its owner may not enter or change."""
            for folder in (os.path.dirname(path), path):
                if not os.path.islink(folder) and os.path.isdir(folder):
                    os.chmod(folder, stat.S_IRWXU)
            if function is os.rmdir or function is os.unlink:
                function(path)
            else:
                shutil.rmtree(path)

        leftovers.bounded(120, lambda: shutil.rmtree(self.tmp, onerror=open_up))
